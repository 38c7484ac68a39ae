# What a warning needs to see in the text, beyond words of it.

#: good 507 a word of DistributedDataParallel, and a model that DataParallel wraps
from torch.nn.parallel import DistributedDataParallel
net = nn.DataParallel(model)
for x, y in loader:
    loss = criterion(net(x), y)
    if not torch.isfinite(loss):
        break
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: bad 507 the wrapped model comes through a parameter
from torch.nn.parallel import DistributedDataParallel
def train(net):
    for x, y in loader:
        loss = criterion(net(x), y)
        if torch.isnan(loss):
            continue  # PLM507
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

wrapped = DistributedDataParallel(model)
train(wrapped)
#: good 702 a comment names what is not called
local_rank = 0  # unlike under DistributedDataParallel(model)
x = torch.ones(4).to("cuda:0")
#: good 110 modules without weights
class Turn(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("angles", torch.arange(dim))
        self.act = nn.ReLU()
    def forward(self, x):
        return self.act(x * self.angles.cos())

def turned(batches):
    turn, smooth = Turn(8).eval(), nn.LogSoftmax(dim=1)
    for x in DataLoader(batches):
        print(turn(x.to(device)).sum().item(), smooth(x).sum().item())

def single(x):
    smooth = nn.LogSoftmax(dim=1)
    print(smooth(x.to(device)).detach().cpu().numpy())
#: bad 110 a module that is given one with weights
class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner(x).sum()

def around(batches):
    net = Around(model).eval()
    for x in DataLoader(batches):
        print(net(x).item())  # PLM110
#: good 110 numpy() fails on what has a graph
def embed(path, net):
    try:
        return net(torch.load(path)).cpu().numpy()
    except RuntimeError:
        return None

def embed_all(paths):
    model.eval()
    for path in paths:
        print(embed(path, model))
    for x in loader:
        out = model(x)
        print(out.squeeze(0).numpy())
#: bad 110 numpy() of what has been detached
def shown():
    model.eval()
    for x in loader:
        out = model(x)  # PLM110
        print(out.detach().numpy())
#: good 110 a method that extends its base's is called by what is not seen
from elsewhere import Task
class Speech(Task):
    def __init__(self):
        self.vocoder = nn.Sequential(nn.Linear(8, 8)).cuda()
    def valid_step(self, sample):
        found = super().valid_step(sample)
        self.listen(sample)
        return found
    def listen(self, sample):
        for x in sample:
            print(self.vocoder(x).sum().item())
#: good 111 a bank of features that is asked on the GPU
class Neighbours:
    def fill(self):
        feats = []
        with torch.no_grad():
            for x, y in loader:
                feats.append(model(x.cuda()))
        self.bank = torch.cat(feats).t()
#: good 103 weights are not results
def groups():
    model.eval()
    kept = []
    for x, (name, p) in zip(loader, model.named_parameters()):
        group = {"params": [p]}
        print(model(x).detach().sum())  # noqa: PLM110
        kept.append(group)
        kept.append(p)
#: bad 110 another model of the file is frozen
teacher = nn.Linear(8, 8)
for p in teacher.parameters():
    p.requires_grad = False

def predict(x):
    net = torch.load("model.pt")
    net.eval()
    out = net(x.to(device))  # PLM110
    return out.argmax(1)
#: good 110 frozen by a function, by a loop over several, or by its class
def freeze(nets, on):
    for net in nets:
        for p in net.parameters():
            p.requires_grad = on

class Still(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        for p in self.parameters():
            p.requires_grad = False
    def forward(self, x):
        return self.layer(x)

first = torch.load("first.pt")
first.eval()
freeze([first], False)
second, still = torch.load("second.pt"), Still()
second.eval()
for net in (second, model):
    net.requires_grad_(False)

def look(x):
    print(first(x.to(device)).argmax(1), second(x.to(device)).argmax(1), still(x.to(device)).argmax(1))
#: good 110 a Module of another library
import flax.linen as nn
class Other(nn.Module):
    width: int
    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.width)(x)

def act(x):
    other = Other(8)
    out = other(x.to(device))
    return out.argmax(1)
#: good 209 the step waits for the GPU all the same
batches = DataLoader(dataset, pin_memory=True)
def train_all():
    for x, y in batches:
        x = x.cuda()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
#: good 508 no training loop
net = nn.DataParallel(model).cuda()
#: good 116 nothing says that memory is short
for x, y in loader:
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: bad 110 a parameter is not another function's object of that name, which freezes a part of itself
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x)

class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Learner()
    def tune(self, x):
        net = copy.deepcopy(self.net)
        for p in net.parameters():
            p.requires_grad = False
        return net(x)

def pick(mod, x):
    found = mod(x.to(device))  # PLM110
    return found.detach().cpu().numpy()

def main(x):
    mod = Meta()
    mod.eval()
    print(pick(mod.net, x))
#: good 110 two modules that are made at once, for a test of their shapes
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x)

if __name__ == "__main__":
    first, second = Head(), Head()
    y, c = first(torch.zeros(1, 8, device=device)), second(torch.zeros(1, 8))
    print(y.shape)
    print({k: v.size() for k, v in c.items()})
#: bad 110 one of two models by its name: that the other one freezes a layer says nothing of this one
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x)

class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Linear(8, 8), nn.Linear(8, 8)
        for p in self.first.parameters():
            p.requires_grad = False
    def forward(self, x):
        return self.layer(self.first(x))

def build(name):
    if name == "large":
        net = Large()
    elif name == "small":
        net = Small()
    return net

def score(net, loaders, losses):
    total = []
    net.eval()
    for x, y in loaders["test"]:
        total.append(losses["test"](net(x), y).item())  # PLM110
    return total

score(nn.DataParallel(build("small")), {"test": DataLoader(dataset)}, {"test": nn.MSELoss()})
#: good 110 a method of the learner asks for the gradients of each inner step
class Learner:
    def __init__(self, net):
        self.net = net.to(device)
    def loss(self, x, y, weights):
        return F.mse_loss(self.net(x, weights), y)
    def inner(self, loss, weights):
        return [w - 0.1 * g for w, g in zip(weights, torch.autograd.grad(loss, weights))]
    def score(self, tasks):
        scores = []
        for x, y, asked, wanted in tasks:
            weights = list(self.net.parameters())
            for _ in range(5):
                loss = self.loss(x, y, weights)
                weights = self.inner(loss, weights)
            with torch.no_grad():
                scores.append(self.loss(asked, wanted, weights).item())
        return scores
Learner(nn.Linear(8, 8)).score(tasks)
#: good 110 the Module of another library
import flax.linen as fnn
def play(net: fnn.Module, weights, world):
    seen, gained = world.reset(), []
    while len(gained) < 9:
        move = net(weights, seen).argmax(-1)
        seen, gain = world.step(move)
        gained.append(gain)
    return gained
#: good 110 a library's function is given the loss and the optimizer
from elsewhere import descend
class Learner:
    def __init__(self, name):
        self.net = nn.Linear(8, 8).to(device)
        self.tuner = getattr(torch.optim, name)(self.net.parameters(), lr=0.1)
    def learn(self, batches):
        for batch in batches:
            loss = F.mse_loss(self.net(batch[0]), batch[1])
            print(descend(self.tuner, loss))
Learner("Adam").learn([])

# What strangers' code taught: each case is in our own words what a rule said falsely there, or did not see.

#: good 101 another result of the same call goes backward, and frees the graph
def parts(out, y):
    first = F.cross_entropy(out, y)
    second = F.mse_loss(out, y)
    return first + second, first, second

total = 0
for x, y in loader:
    loss, first, second = parts(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += first

#: good 704 each element has an optimizer of its own
class Heads(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.heads = [nn.Linear(8, 8).cuda() for i in range(n)]
        self.steps = [torch.optim.SGD(self.heads[i].parameters(), lr=0.1) for i in range(n)]

#: bad 704 a sum of lists
class Stack(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = [nn.Linear(4, 8)] + [nn.Linear(8, 8) for _ in range(n)]  # PLM704
        # self.layers = nn.ModuleList([nn.Linear(8, 8)])

#: bad 704 the base is in another file
from .base import BaseNetwork

class Decoder(BaseNetwork):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.heads = [nn.Conv2d(8, 3, 3), nn.Conv2d(4, 3, 3)]  # PLM704
    def forward(self, x):
        return self.heads[0](self.first(x))

#: good 401 a scheduler's state is numbers
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 9)
scheduler.load_state_dict(torch.load('scheduler.pt'))

#: good 116 a new optimizer has no gradients of the last step
for x, y in loader:
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = criterion(model(x), y)
    inner.zero_grad()
    loss.backward()
    inner.step()

#: good 110 the retry of what failed without gradients
def encode(model, loader):
    model.eval()
    found = []
    try:
        with torch.no_grad():
            for x, y in loader:
                found.append(model(x).cpu())
    except RuntimeError:
        for x, y in loader:
            found.append(model(x).detach().cpu())
    return found

encode(model, loader)

#: bad 110 a meter's update() trains nothing
def validate(model, val_loader, losses, confmat):
    model.eval()
    for x, y in val_loader:
        out = model(x)  # PLM110
        losses.update(criterion(out, y).item(), 8)
        confmat.update(y, out.argmax(1))

validate(model, loader, meter, matrix)

#: bad 105 what a parameter iterates over is data
def fit(train_source_iter, model, optimizer, steps, trade_off):
    for i in range(steps):
        x, y = next(train_source_iter)[:2]
        loss = F.cross_entropy(model(x), y) * trade_off
        optimizer.zero_grad()
        loss.backward(retain_graph=True)  # PLM105
        optimizer.step()

#: bad 804 by what the name was bound to
m = nn.Linear(8, 8)
m.eval  # PLM804

#: good 102 a method of the class called backward is not autograd's
class Perceptron:
    def forward(self, x):
        return torch.mm(x, self.weights)
    def backward(self, x, y):
        return y - self.forward(x)
    def train(self, x, y):
        for i in range(9):
            errors = self.backward(x[i], y[i])
            self.weights += errors * x[i]

#: good 117 one of several optimizers, by a key
steps = {"g": torch.optim.Adam(net.parameters()), "d": torch.optim.Adam(critic.parameters())}
for x, y in loader:
    steps["d"].zero_grad()
    steps["g"].zero_grad()
    fake = net(x)
    judged = critic(fake)
    loss = -judged.mean()
    loss.backward()
    steps["g"].step()

#: good 701 the last line of a cell shows its value
a = torch.ones(3)
# %%
a.to("cuda")

# %% another
print(a)

#: bad 701 not the last line of a cell
# %%
a = torch.ones(3)
a.to("cuda")  # PLM701
print(a)
# %%

#: good 805 log_softmax twice is the same as once
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return F.log_softmax(self.layer(x), dim=1)

small = Net()
for x, y in loader:
    out = small(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

#: good 401 the other arm says where to
if torch.cuda.is_available():
    model.load_state_dict(torch.load("model.pt"))
else:
    model.load_state_dict(torch.load("model.pt", map_location="cpu"))

#: bad 401 every rank loads onto the GPU it was saved from
import torch.distributed as dist
dist.init_process_group("gloo")
model.load_state_dict(torch.load("model.pt"))  # PLM401
model = nn.parallel.DistributedDataParallel(model.to(device))

#: bad 110 inference_mode by its keyword, switched off
def evaluate(model, loader):
    model.eval()
    with torch.inference_mode(mode=False):
        for x, y in loader:
            print(model(x).argmax())  # PLM110
evaluate(model, loader)

#: good 110 inference_mode in every form that is on
@torch.inference_mode
def evaluate(model, loader):
    model.eval()
    for x, y in loader:
        print(model(x).argmax())
    with torch.inference_mode(mode=True):
        for x, y in loader:
            print(model(x).argmax())
evaluate(model, loader)

#: good 104 a dict that the model fills in each call
net, endpoints = build()
optimizer = torch.optim.SGD(net.parameters())
for x, y in loader:
    endpoints = net(x, endpoints)
    loss = criterion(endpoints["logits"], y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

#: good 202 its arguments are of this epoch
for epoch in range(9):
    plan = choose(epoch)
    rows = DataLoader(dataset, batch_size=8, num_workers=len(plan["cores"]))
    for x, y in rows:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

#: good 104 what a model of another file does with its argument is not known
from elsewhere import build
net = build()
optimizer = torch.optim.SGD(net.parameters())
board = None
for x, y in loader:
    out, board = net(x, board)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

#: bad 104 its name says that it is a state
from elsewhere import build
net = build()
optimizer = torch.optim.SGD(net.parameters())
hidden = None
for x, y in loader:
    out, hidden = net(x, hidden)  # PLM104
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

#: good 801 a model that knows the loss may clear its gradients, too
def train(batches, model, optim_a):
    for x, y in batches:
        loss = model(x, y)
        loss.backward()
        optim_a.step()

#: bad 403 kept once as a copy, once not
best = copy.deepcopy(model.state_dict())
best_score = 0
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    score = measure(model)
    if score > best_score:
        best_score = score
        best = model.state_dict()  # PLM403
model.load_state_dict(best)

#: bad 110 what comes out is only counted
correct = 0
for x, y in loader:
    out = model(x)  # PLM110
    correct += (out.argmax(1) == y).sum().item()

#: bad 701 an element of one of several loaders
def train(dataloaders, model):
    for x, y in dataloaders["train"]:
        x.to(device)  # PLM701
        print(model(x))  # PLM110

#: bad 102 the loss itself, that went backward
total = 0
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss  # PLM102

#: good 102 a part of it may have no graph
total = 0
for x, y in loader:
    loss, part = measure(model(x), y)
    (loss + part).backward()
    optimizer.step()
    optimizer.zero_grad()
    total += part

#: good 111 only what is different is kept
model.eval()
codes = []
with torch.no_grad():
    for x, y in loader:
        found = model(x.cuda())
        found = torch.unique(found)
        codes.append(found)

#: bad 110 a loop's variable is no result of the statement before it
def train(model, loader, epoch):
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def check(model, test_loader):
    model.eval()
    for x, y in test_loader:
        print(model(x).argmax(1))  # PLM110

for epoch in range(3):
    train(model, loader, epoch)
    check(model, loader)

#: bad 801 an optimizer known by its last name only
def train(run, loader):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        run.optimizer.step()  # PLM801

#: bad 102 what goes backward has a graph, whoever made it
from elsewhere import distance

def train(model, loader, optimizer):
    total = 0
    for x, y in loader:
        gap = distance(model, x, y)
        optimizer.zero_grad()
        gap.backward()
        optimizer.step()
        total += gap  # PLM102

#: good 102 a number by then
from elsewhere import distance

def train(model, loader, optimizer):
    total = 0
    for x, y in loader:
        gap = distance(model, x, y)
        optimizer.zero_grad()
        gap.backward()
        optimizer.step()
        gap = gap.item()
        total += gap

#: bad 105 the state is detached, so nothing goes back into the step before
rnn = nn.LSTM(8, 8).cuda()
state = None
for x, y in loader:
    state = None if state is None else tuple(t.detach() for t in state)
    out, state = rnn(x, state)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # PLM105
    optimizer.step()

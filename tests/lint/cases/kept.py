# Graphs and tensors that are kept.  Each section stands behind catalogue.PREAMBLE; `# PLM101` marks what must be
# found at that line.  Of rules that are not marked, none of severity error or warning may be found.
#: bad 101 a sum in evaluation under a condition on another name
def evaluate(model, loader):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)  # PLM110
        total = total + loss  # PLM101
    return total / len(loader)
model.eval()
evaluate(model, loader)
#: bad 101 by key
sums = {"loss": 0}
for x, y in loader:
    extra = F.mse_loss(model(x), y)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    sums["loss"] += extra  # PLM101
#: good 101 the sum itself goes backward
for x, y in loader:
    loss = 0
    for part in x:
        loss += criterion(model(part), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 101 numbers
total = 0.0
for x, y in loader:
    with torch.no_grad():
        total += criterion(model(x), y)
#: good 101 the function's caller goes backward
def objective(model, loader):
    total = 0
    for x, y in loader:
        total += criterion(model(x), y)
    return total
for step in range(9):
    loss = objective(model, loader)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 101 made anew in the loop
for x, y in loader:
    total = 0
    total += criterion(model(x), y)
    total.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 101 a second result of a model may be a ratio
total = 0
for x, y in loader:
    out, ratio = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += ratio
#: bad 103 logits of an evaluation without no_grad
def predict(model, loader):
    model.eval()
    logits = []
    for x, y in loader:
        logits.append(model(x))  # PLM103 PLM110
    return logits
predict(model, loader)
#: good 103 stacked and sent backward
for epoch in range(3):
    losses = []
    for x, y in loader:
        losses.append(criterion(model(x), y))
    torch.stack(losses).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 103 a bounded deque
from collections import deque
last = deque(maxlen=8)
for x, y in loader:
    out = model(x)
    last.append(F.mse_loss(out, y))
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 103 layers of a model
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
    def forward(self, x):
        outs = []
        for layer in self.layers:
            x = layer(x)
            outs.append(x)
        return outs
#: bad 104 an RNN of the file, state on self
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8)
    def forward(self, x, h):
        return self.rnn(x, h)
net = Net()
h = torch.zeros(1, 4, 8)
for x, y in loader:
    out, h = net(x, h)  # PLM104
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: bad 104 state that a module keeps on itself
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8)
        self.h = None
    def forward(self, x):
        out, self.h = self.rnn(x, self.h)  # PLM104
        return out
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
#: bad 104 the same in a part of the model, without retain_graph
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.state = None
    def forward(self, x):
        out, self.state = self.lstm(x, self.state)  # PLM104
        return out
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = Memory()
    def forward(self, x):
        return self.memory(x)
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 104 state on self, made anew by a method for each batch; retain_graph may be for it
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8)
        self.h = None
    def reset(self):
        self.h = None
    def forward(self, x):
        out, self.h = self.rnn(x, self.h)
        return out
net = Net()
for step, (x, y) in enumerate(loader):
    if step % 8 == 0:
        net.reset()
    loss = criterion(net(x), y)
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
#: good 105 a memory that a module reads in the next pass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.last = None
    def forward(self, x):
        x = self.mix(x) if self.last is None else self.mix(x) + self.last
        self.last = x
        return x
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
#: bad 105 state on self that is cut off
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8)
        self.h = None
    def forward(self, x):
        out, self.h = self.rnn(x, self.h)
        self.h = self.h.detach()
        return out
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward(retain_graph=True)  # PLM105
    optimizer.step()
    optimizer.zero_grad()
#: good 104 repackaged by a function of the file
def repackage(h):
    return tuple(v.detach() for v in h)
rnn = nn.LSTM(8, 8)
h = None
for x, y in loader:
    if h is not None:
        h = repackage(h)
    out, h = rnn(x, h)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 104 made anew for each batch
rnn = nn.LSTM(8, 8)
for x, y in loader:
    h = None
    for part in x:
        out, h = rnn(part, h)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 104 generation
rnn = nn.LSTM(8, 8)
h = None
with torch.no_grad():
    for i in range(100):
        out, h = rnn(x, h)
#: good 105 two losses over one forward pass
for x, y in loader:
    out = model(x)
    a = criterion(out, y)
    b = out.pow(2).mean()
    a.backward(retain_graph=True)
    b.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 105 a graph from before the loop
features = model(torch.zeros(4, 8))
for i in range(9):
    loss = features.sum() * i
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
#: bad 105 the last of two
for x, y in loader:
    out = model(x)
    a = criterion(out, y)
    b = out.pow(2).mean()
    a.backward(retain_graph=True)
    b.backward(retain_graph=True)  # PLM105
    optimizer.step()
    optimizer.zero_grad()
#: good 107 a record of the failure
class Failed:
    pass
try:
    out = model(x)
except torch.cuda.OutOfMemoryError:
    out = Failed()
#: bad 110 a method, the loader a parameter
class Tester:
    def __init__(self, net: nn.Module):
        self.net = net
    def evaluate(self, test_loader):
        self.net.eval()
        for x, y in test_loader:
            print(self.net(x).argmax(1))  # PLM110
#: bad 110 volatile does nothing
def validate(model, loader):
    model.eval()
    for i, (x, y) in enumerate(loader):
        x = torch.autograd.Variable(x, volatile=True)
        print(model(x))  # PLM110
validate(model, loader)
#: good 110 the callers turn gradients off
def evaluate(model, loader):
    model.eval()
    for x, y in loader:
        print(model(x))
with torch.no_grad():
    evaluate(model, loader)
#: good 110 enter_context
import contextlib
def evaluate(model, loader):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        model.eval()
        for x, y in loader:
            print(model(x))
#: good 110 an attack needs gradients
def evaluate(model, loader):
    model.eval()
    for x, y in loader:
        x.requires_grad_()
        loss = criterion(model(x), y)
        grad = torch.autograd.grad(loss, x)
#: good 110 gradients off for the whole file
torch.set_grad_enabled(False)
def evaluate(model, loader):
    model.eval()
    for x, y in loader:
        print(model(x))
#: good 110 Lightning turns them off
import lightning as L
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
    def validation_step(self, batch, i):
        x, y = batch
        return self.net(x)
#: good 111 classes, not logits
preds = []
with torch.no_grad():
    for x, y in loader:
        out = model(x.to(device))
        preds.append(out.argmax(1))
#: good 116 several optimizers
opt_d = torch.optim.SGD(model.parameters())
for x, y in loader:
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    opt_d.zero_grad()
    loss.backward()
    optimizer.step()
    opt_d.step()
#: bad 104 the state of a cell is its output, too: it is detached in front of the pass, not behind it
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(8, 8)
        self.h = None
    def forward(self, x):
        self.h = self.cell(x, self.h)  # PLM104
        return self.h
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: bad 104 two states of a cell
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 8)
        self.h, self.c = torch.zeros(4, 8), torch.zeros(4, 8)
    def forward(self, x):
        self.h, self.c = self.cell(x, (self.h, self.c))  # PLM104
        return self.h
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: bad 102 what a function goes backward from and returns, summed up
def step(net, batch):
    optimizer.zero_grad()
    loss = net(batch).loss
    loss.backward()
    optimizer.step()
    return loss

total = 0
for x in loader:
    total += step(model, x)  # PLM102
print(total)
#: good 102 the same as a number
def step(net, batch):
    optimizer.zero_grad()
    loss = net(batch).loss
    loss.backward()
    optimizer.step()
    return loss.item()

total = 0
for x in loader:
    total += step(model, x)
print(total)
#: bad 102 a method that goes backward and writes its history
class Learner:
    def __init__(self, net):
        self.net, self.history = net, {"loss": []}

    def learn(self, x, y):
        loss = criterion(self.net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        self.history["loss"].append(loss)  # PLM102
#: good 102 a history that is emptied, or of numbers
class Learner:
    def __init__(self, net):
        self.net, self.history, self.kept = net, [], []

    def learn(self, x, y):
        loss = criterion(self.net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        self.history.append(loss)
        loss = loss.item()
        self.kept.append(loss)

    def report(self):
        print(sum(self.history))
        self.history.clear()
#: bad 102 a closure that writes into the list around it
losses = []
for i in range(100):
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        losses.append(loss)  # PLM102
        return loss
    optimizer.step(closure)
#: bad 102 a running mean, a mean over all and a record of each step
mean, average, records = 0, 0, []
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = 0.99 * mean + 0.01 * loss  # PLM102
    average = (average * i + loss) / (i + 1)  # PLM102
    records.append({"step": i, "loss": loss})  # PLM102
#: good 102 running means of numbers
mean = 0
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = 0.99 * mean + 0.01 * loss.item()
#: bad 102 parts of a loss, by name
meters = {}
for x, y in loader:
    parts = model(x, y)
    loss = sum(part for part in parts.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for name, part in parts.items():
        meters.setdefault(name, []).append(part)  # PLM102
#: bad 103 outputs by file name, of a model from torch.load
import glob
net = torch.load("model.pt")
net.cuda()
results = {}
for path in glob.glob("*.pt"):
    results[path] = net(torch.load(path))  # PLM103 PLM110
#: bad 103 a model that the caller put into eval mode
def index(net, data):
    found = {}
    for i in range(len(data)):
        found[i] = net(data[i].cuda())  # PLM103 PLM110
    return found

def main(data):
    net = Net()
    net.load_state_dict(torch.load("net.pt"))
    net.eval()
    return index(net, data)
#: good 103 110 a pipeline turns gradients off by itself
def sample(pipeline, loader):
    pipeline.to("cuda")
    for example in loader:
        for image in pipeline(example["prompt"]).images:
            image.save("image.png")
#: bad 110 a sum over a generator in eval mode
def validate(net, loader):
    net.eval()
    return sum(criterion(net(x), y) for x, y in loader)  # PLM103
#: bad 103 a validation loss of each epoch, behind the loop that trains
history, curve = [], []
for epoch in range(10):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    checked = criterion(model(held_x), held_y)
    history.append(checked)  # PLM103
    curve.append(total / len(loader))
#: good 103 a mean of what went backward is small
curve = []
for epoch in range(10):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
    curve.append(total / len(loader))
#: bad 101 what goes backward by an engine's call is the loss, not the engine
engine, feed = launch(model)
for x in feed:
    loss = engine(x)
    engine.backward(loss)
    engine.step()
engine.eval()
total = 0
for x, y in loader:
    total += criterion(engine(x), y)  # PLM101 PLM110
#: bad 102 sums and meters by key
from collections import defaultdict
class Meter:
    def __init__(self):
        self.total = 0
    def update(self, value, n=1):
        self.total += value * n
class Parts:
    def __init__(self):
        self.meters = {"loss": Meter()}
def train(parts):
    made, each, sums = defaultdict(Meter), {name: Meter() for name in ("loss", "part")}, {"loss": 0}
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        made["loss"].update(loss, len(x))  # PLM102
        each["loss"].update(loss)  # PLM102
        sums["loss"] = sums["loss"] + loss  # PLM102
        print(each["loss"].total)
class Run(Parts):
    def train(self):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.meters["loss"].update(loss)  # PLM102
#: good 102 a meter by key that is given numbers, or made anew
class Meter:
    def __init__(self):
        self.total = 0
    def update(self, value):
        self.total += value
def train():
    meters = {"loss": Meter()}
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters["loss"].update(loss.item())
def again():
    for x, y in loader:
        meters = {"loss": Meter()}
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters["loss"].update(loss)
#: bad 103 what is joined to is made in the first iteration
def encode(net: nn.Module, data):
    net.eval()
    kept = None
    for i, x in enumerate(data):
        out = net(x.to(device))  # PLM110
        if kept is None:
            kept = out
        else:
            kept = torch.cat((kept, out))  # PLM103
        if i == 0:
            more = out
        else:
            more = torch.cat((more, out))  # PLM103
    return kept.detach().cpu(), more.detach().cpu()
#: bad 110 what is joined to is made anew now and then
def encode(net: nn.Module, data):
    net.eval()
    kept = None
    for i, x in enumerate(data):
        out = net(x.to(device))  # PLM110
        if i % 8 == 0:
            kept = out
        else:
            kept = torch.cat((kept, out))
        print(kept.norm().item())

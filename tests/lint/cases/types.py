# What a module's call returns carries a graph, whatever the names of models, loops and lists are.
#: bad 103 no loader, a second result
def score(scorer, graphs):
    scorer.eval()
    kept = []
    for g in graphs:
        first, second = scorer([g])  # PLM110
        kept.append(second)  # PLM103
    return torch.cat(kept, 0)
#: good 103 a second result that nothing shows to be a tensor
def score(scorer, graphs):
    scorer.eval()
    kept = []
    with torch.no_grad():
        for g in graphs:
            first, second = scorer([g])
            print(first)
    for g in graphs:
        kept.append(len(g))
    return kept
#: bad 103 a script over a list
results = []
for picture in [torch.zeros(1, 8) for _ in range(40)]:
    results.append(model(picture))  # PLM103 PLM110
#: bad 110 inference for ever
def main(source):
    net = nn.Sequential(nn.Linear(8, 8)).cuda()
    net.eval()
    while True:
        frame = source.read()
        if frame is None:
            break
        print(net(frame).argmax())  # PLM110
#: good 110 a function whose caller may go backward
def unrolled(cell: nn.Module, x, n):
    outs = []
    for t in range(n):
        x = cell(x)
        outs.append(x)
    return outs
#: good 110 a warm-up
model.eval()
for _ in range(10):
    model(x)
#: good 110 part of a training step
for x, y in loader:
    outs = []
    for part in x:
        outs.append(model(part))
    loss = criterion(torch.cat(outs), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: good 110 back in training mode before the loop
model.eval()
check(model)
model.train()
def objective(parts):
    return sum(model(part).sum() for part in parts)
#: bad 104 a running mean on a buffer
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.var = torch.ones(n)
        self.register_buffer("top", torch.zeros(n))
    def forward(self, x):
        m = x.mean(0)
        self.mean = 0.9 * self.mean + 0.1 * m  # PLM104
        self.var += x.var(0)  # PLM104
        self.top.mul_(0.9).add_(x.amax(0))  # PLM104
        return x - m
#: good 104 running statistics without a graph, counters, and what is made anew
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.zeros(n))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("sum", torch.zeros(n))
    def reset(self):
        self.sum = torch.zeros_like(self.sum)
    def forward(self, x):
        with torch.no_grad():
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.var.mul_(0.9).add_(x.var(0).detach())
        self.seen = self.seen + x.shape[0]
        self.sum = self.sum + x.mean(0)
        return x
#: bad 106 forward hooks that fill lists
class Watch:
    def __init__(self, net):
        self.seen = []
        self.by_name = {}
        for part in net.modules():
            part.register_forward_hook(self.keep)
    def keep(self, part, inputs, output):
        self.seen.append(output)  # PLM106
features = []
def named(name):
    def hook(part, inputs, output):
        features.append(output.detach())  # PLM106
    return hook
model.register_forward_hook(named("a"))
kept = []
model.register_forward_hook(lambda part, inputs, output: kept.append(output))  # PLM106
with torch.no_grad():
    for x, y in loader:
        print(model(x).argmax())
#: good 106 hooks that are removed, and a list that is emptied
features = []
def hook(part, inputs, output):
    features.append(output)
handle = model.register_forward_hook(hook)
with torch.no_grad():
    for x, y in loader:
        print(model(x).argmax())
handle.remove()
#: bad 104 any callable whose state goes back into it
def train(step_of, batches):
    hidden = None
    for x, y in batches:
        out, hidden = step_of(x, hidden)  # PLM104
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
#: bad 115 copies of the model in a list
snapshots = []
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    snapshots.append(copy.deepcopy(model))  # PLM115
#: good 115 the last few, and a copy that is made once
from collections import deque
snapshots = deque(maxlen=3)
ensemble = []
for i in range(4):
    ensemble.append(copy.deepcopy(model))
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    snapshots.append(copy.deepcopy(model))
#: good 110 a function's name says nothing of a loop that is over no loader
def test_variants():
    for kind in ("sum", "mean"):
        net = nn.Linear(8, 8)
        out = net(x)
        assert out.shape == (4, 8)
#: bad 806 a number that is written out
for i, (x, y) in enumerate(loader):
    criterion(model(x), y).backward()  # PLM806
    if (i + 1) % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
#: bad 201 a text, a test and an assertion need the number
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))
    assert torch.isfinite(loss).all()  # PLM201
    loss.backward()
    optimizer.step()
    print(f"{loss:.3f}")
#: good 201 a test of None, and of what is on the CPU
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))
    if y is not None and (y > 0).any():
        loss.backward()
    optimizer.step()
#: bad 118 in the loop itself
from transformers import AutoModel
for text in texts:
    net = AutoModel.from_pretrained("a")  # PLM118
    print(net(text))  # PLM110
#: good 118 other weights each time, and a cached load
import functools
from transformers import AutoModel
@functools.lru_cache(maxsize=1)
def load():
    return AutoModel.from_pretrained("a")
with torch.no_grad():
    for name in names:
        net = AutoModel.from_pretrained(name)
        print(net(x), load())
#: good 212 numbers, and no workers
class Rows(Dataset):
    def __init__(self, n):
        self.rows = [torch.zeros(3) for _ in range(n)]
        self.names = [str(i) for i in range(n)]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return self.rows[i]
class Tensors(Dataset):
    def __init__(self, n):
        self.rows = [torch.zeros(3) for _ in range(n)]
    def __getitem__(self, i):
        return self.rows[i]
batches = DataLoader(Rows(8), batch_size=8)
batches = DataLoader(Tensors(8), batch_size=8, num_workers=8)
#: good 213 samples in memory
class Rows(Dataset):
    def __init__(self, n):
        self.rows = torch.zeros(n, 3)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return self.rows[i]
batches = DataLoader(Rows(8), batch_size=8)
for x, y in batches:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 812 a new value, and a leaf under no_grad
w = torch.zeros(3, requires_grad=True)
w = w * 2
w += 1
v = torch.zeros(3, requires_grad=True)
v.data.add_(1)
#: good 110 what is compiled is a function, and turns gradients off itself
def one(batch):
    with torch.no_grad():
        return model(batch)

def run(batches):
    fast = torch.compile(one)
    model.eval()
    for batch in batches:
        print(fast(batch))
#: good 810 parameters() of another object gives a list
def check(bucket):
    ps = bucket.parameters()
    if len(ps) == 0:
        return
    nn.utils.clip_grad_norm_(ps, 1.0)
    print(sum(p.numel() for p in ps), list(ps))
    torch.optim.SGD(ps)
#: good 105 parts of one graph, one after the other; and a graph from before the loop
def gradients(fn, inputs):
    outs = fn(*inputs)
    for out in leaves(outs):
        out.sum().backward(retain_graph=True)

def again(work, a, b):
    loss = work(torch.mul, a, b).sum()
    for _ in range(10):
        loss.backward(retain_graph=True)
#: good 501 another name for a rank
import torch.distributed as dist
from elsewhere import Base

class Test(Base):
    def setUp(self):
        if self.rank != self.MAIN_PROCESS_RANK:
            dist.barrier()
#: good 502 a sampler that no loader has
from torch.utils.data.distributed import DistributedSampler
shares = DistributedSampler(dataset)
print(len(shares))
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
#: bad 103 eval mode is set where the model is loaded
from elsewhere import build

class Tester:
    def __init__(self, path):
        self.detector = build(path)
        self.detector.eval()
        self.results = []
    def run(self, images):
        for image in images:
            out = self.detector(image)  # PLM110
            self.results.append(out)  # PLM103
#: bad 103 a comprehension keeps what it makes
def embed(encoder, texts):
    encoder.eval()
    return [encoder(t) for t in texts]  # PLM103
#: bad 110 a comprehension of numbers, whose graphs nobody needs
def classes(encoder, texts):
    encoder.eval()
    return [encoder(t).argmax().item() for t in texts]  # PLM110
#: bad 110 a method of the module that calls it, once for each batch
class Base(nn.Module):
    def validation_step(self, batch):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        return {"loss": loss.detach()}
class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x)
def to_device(data, device):
    if isinstance(data, (list, tuple)):
        return [to_device(x, device) for x in data]
    return data.to(device)
def evaluate(net, batches):
    net.eval()
    return [net.validation_step(b) for b in batches]  # PLM110
def sizes(net, batches):
    net.eval()
    for b in batches:
        print(net.validation_step(b))  # PLM110
net = to_device(Net(), device)
torch.optim.SGD(net.parameters(), 0.1)
evaluate(net, loader)
sizes(net, loader)
#: bad 110 a function of the file that is given a module, numbers come out
def scores(scorer, rows, size):
    found = []
    for i in range(0, len(rows), size):
        out = scorer(rows[i:i + size].to("cuda"))  # PLM110
        found.extend(out.tolist())
    return found
scores(model, rows, 8)
#: bad 110 text that grows: each pass goes on from the one before
def write(net, ids, n):
    net.eval()
    for step in range(n):
        logits = net(ids)  # PLM110
        ids = torch.cat((ids, logits[:, -1].argmax(-1, keepdim=True)), 1)
    return ids
#: bad 110 a test within the training loop, in training mode
model.train()
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    out = model(x)
    criterion(out, y).backward()
    optimizer.step()
    if step % 100 == 0:
        for a, b in DataLoader(dataset):
            out = model(a).data.cpu().numpy()  # PLM110
            print(out.argmax())
#: bad 110 the names of the training loop, used again
held_out = DataLoader(dataset)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
    for x, y in held_out:
        out = model(x)  # PLM110
        loss = criterion(out, y)
        print(loss.item())
#: bad 102 outputs of a model of another file, kept in each step
from elsewhere import Net
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
kept = []
for x, y in loader:
    out = net(x)
    kept.append(out)  # PLM102
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: good 110 a pass within the training loop that goes backward later
for x, y in loader:
    optimizer.zero_grad()
    total = 0
    for part in DataLoader(x):
        total = total + model(part).sum()
    total.backward()
    optimizer.step()
#: good 110 parts of results that go backward after the loop, and results that nobody looks at
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x), elsewhere(x)
parts = Parts()
torch.optim.SGD(parts.parameters(), 0.1)
def train():
    total = 0.
    for x in DataLoader(dataset):
        total += parts(x)[1]
    total.backward()
def clock(inputs):
    for i in range(9):
        model(inputs[i])
    for x, y in loader:
        _ = model(x)
        break
clock(torch.zeros(9, 1, 8))
#: good 110 a loss for a function of another file, frozen weights, a test of shapes, and training elsewhere
from engine import go_back
for x, y in loader:
    loss = criterion(model(x), y)
    go_back(loss)
def shapes(sizes):
    for size in sizes:
        net = nn.Sequential(nn.Linear(size, size))
        print(net(torch.zeros(1, size)).shape, sum(p.numel() for p in net.parameters()))
def stack(sizes):
    layers, widths = [], []
    for size in sizes:
        layers.append(nn.Linear(size, size).to(device))
        widths.append(layers[-1].weight.shape[0] + layers[-1].extra_repr().count("a"))
    return widths
def infer(net, rows):
    for p in net.parameters():
        p.requires_grad = False
    for row in rows:
        print(net(row).argmax())
def local_updates(net: nn.Module, rows):
    for row in rows:
        print(net(row).sum().item())
model.train()
local_updates(model, loader)
#: good 103 a comprehension without gradients, or trained on
def embed(encoder, texts):
    encoder.eval()
    with torch.no_grad():
        first = [encoder(t) for t in texts]
    return first

def adapt(encoder, texts, y):
    encoder.eval()
    outs = [encoder(t) for t in texts]
    criterion(torch.cat(outs), y).backward()
#: bad 103 a list in a dict, and a tensor that grows by itself
def collect(net, items):
    net.eval()
    found = {"out": []}
    whole = torch.empty(0)
    for item in items:
        out = net(item)  # PLM110
        found["out"].append(out)  # PLM103
        whole = torch.cat((whole, out))  # PLM103
    return found, whole
#: good 103 a sequence that grows by indices, and one that goes backward
def generate(net, tokens):
    net.eval()
    for _ in range(20):
        with torch.no_grad():
            tokens = torch.cat((tokens, net(tokens).argmax(-1)), dim=1)
    return tokens

for x, y in loader:
    outs = torch.empty(0)
    for part in x:
        outs = torch.cat((outs, model(part)))
    loss = criterion(outs, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: good 103 an unrolled recurrence
def unroll(step: nn.Module, start, n):
    step.eval()
    states = [start]
    for _ in range(n):
        states.append(step(states[-1]))
    return torch.stack(states)
#: good 501 a test that wants the failure
import torch.distributed as dist
import pytest

def test_barrier():
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError):
            dist.monitored_barrier()
#: bad 704 a layer that each pass makes anew
class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
    def forward(self, x):
        out = nn.Linear(8, 4)(self.inner(x))  # PLM704
        return nn.LayerNorm(4)(out)

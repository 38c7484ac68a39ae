# Stalls, precision, checkpoints, processes, devices, loops.
#: bad 201 one finding a loop
for x, y in loader:
    out = model(x.to(device))
    loss = criterion(out, y)
    a = loss.item()  # PLM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    b = float(out.sum())
#: good 201 the log waits once
for x, y in loader:
    out = model(x.to(device))
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    a = loss.item()
    b = float(out.sum())
#: good 202 another dataset each epoch
for epoch in range(9):
    dataset = make(epoch)
    batches = DataLoader(dataset)
    for x, y in batches:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
#: good 204 now and then
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if i % 100 == 0:
        torch.cuda.empty_cache()
#: good 204 once an epoch
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.empty_cache()
#: good 208 not written out
batches = DataLoader(dataset, num_workers=workers, persistent_workers=True)
#: good 208 no sampler, then shuffle
batches = DataLoader(dataset, shuffle=True, sampler=None)
#: good 301 disabled
for x, y in loader:
    with torch.autocast("cuda", enabled=False):
        loss = criterion(model(x), y)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 302 the branch without a scaler
scaler = torch.amp.GradScaler()
for x, y in loader:
    loss = criterion(model(x), y)
    if amp:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    optimizer.zero_grad()
#: good 403 saved at once
best = None
lowest = 9.0
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if loss.item() < lowest:
        best = model.state_dict()
        torch.save(best, "best.pt")
#: good 403 the idiom of fine-tuning
own = model.state_dict()
given = {k: v for k, v in pretrained.items() if k in own}
own.update(given)
model.load_state_dict(own)
#: bad 403 a backup that restores nothing
backup = model.state_dict()  # PLM403
model.load_state_dict(other)
print(model(x))  # PLM110
model.load_state_dict(backup)
#: good 501 the others return first
import torch.distributed as dist
def wait():
    if dist.get_rank() != 0:
        dist.barrier()
        return
    print("first")
    dist.barrier()
#: good 501 both arms
import torch.distributed as dist
if dist.get_rank() == 0:
    dist.broadcast(x, src=0)
else:
    dist.broadcast(y, src=0)
#: good 502 evaluation
from torch.utils.data.distributed import DistributedSampler
val_sampler = DistributedSampler(dataset)
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
#: good 504 DDP keeps the parameters
opt = torch.optim.Adam(model.parameters())
net = nn.parallel.DistributedDataParallel(model)
#: good 507 a plain run
for x, y in loader:
    loss = criterion(model(x), y)
    if torch.isnan(loss):
        continue
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
#: good 701 a module and a batch object
model.to(device)
for batch in loader:
    batch.to(device)
#: bad 701 made by torch
mask = torch.ones(4, 4)
mask.half()  # PLM701
#: good 704 wrapped later
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for _ in range(4):
            layers.append(nn.Linear(8, 8))
        self.net = nn.Sequential(*layers)
#: good 704 a list without parameters, and one that is wrapped
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.acts = [nn.ReLU(), nn.Tanh()]
        self.parts = [nn.Linear(8, 8)]
        self.all = nn.ModuleList(self.parts)
#: good 801 accumulation
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
#: good 801 set to None by hand
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    for p in model.parameters():
        p.grad = None
#: good 801 a helper of the file
def finish(opt):
    opt.step()
    opt.zero_grad()
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    finish(optimizer)
#: good 802 another optimizer's gradients
opt_d = torch.optim.SGD(other.parameters())
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    opt_d.zero_grad()
    optimizer.step()
    optimizer.zero_grad()
#: good 803 behind the optimizer, once an epoch
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 9)
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    schedule.step()
#: good 808 train mode comes back
def check(model):
    model.eval()
    model.train()
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    check(model)
#: bad 809 whatever the function is called
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    def forward(self, x):
        return self.layers(x)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def how_good(net, batches):
    with torch.no_grad():
        for x, y in batches:
            print(net(x).argmax(1).eq(y).sum())  # PLM809
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    how_good(net, loader)
#: bad 110 one loop for both phases
for phase in ("train", "valid"):
    if phase == "train":
        model.train()
    else:
        model.eval()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # PLM110
        if phase == "train":
            loss.backward()
            optimizer.step()
#: good 110 one loop for both phases, which turns gradients off for one
for phase in ("train", "valid"):
    if phase == "train":
        model.train()
    else:
        model.eval()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.set_grad_enabled(phase == "train"):
            loss = criterion(model(x), y)
        if phase == "train":
            loss.backward()
            optimizer.step()
#: good 110 the caller turns gradients off for one of the phases
def run(learns):
    if learns:
        model.train()
    else:
        model.eval()
    for x, y in loader:
        loss = criterion(model(x), y)
        if learns:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
run(True)
with torch.no_grad():
    run(False)
#: bad 110 one loop for training and evaluation: the test is an expression, an argument of train(), or behind a 'not'
def expression(net: nn.Module, learns):
    net.train() if learns else net.eval()
    for x, y in loader:
        loss = criterion(net(x), y)  # PLM110
        if learns:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
def argument(net: nn.Module, steps=None):
    net.train(steps is not None)
    for x, y in loader:
        loss = criterion(net(x), y)  # PLM110
        if steps is not None:
            steps.zero_grad()
            loss.backward()
            steps.step()
def denied(net: nn.Module, learns):
    if learns:
        net.train()
    else:
        net.eval()
    for x, y in loader:
        loss = criterion(net(x), y)  # PLM110
        if not learns:
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
#: good 202 a loader in the loop that starts no workers
for epoch in range(3):
    batches = DataLoader(dataset, batch_size=8, shuffle=True)
    alone = DataLoader(dataset, num_workers=0)
    for x, y in batches:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
#: good 201 a flag that has the name of a loss
class Coach:
    def __init__(self, with_loss):
        self.with_loss = with_loss
        self.net = nn.Linear(8, 8).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def train(self, world):
        seen = world.reset()
        while seen is not None:
            move = self.net(seen.to(device)).detach().cpu().numpy()
            seen = world.step(move)
            out = self.net(world.batch())
            self.optimizer.zero_grad()
            if self.with_loss:
                out = out + 1
            out.mean().backward()
            self.optimizer.step()

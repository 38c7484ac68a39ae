# Training steps that build graphs, or go back through them, for nothing.  As in kept.py.
#: bad 119 a teacher that the caller gives
def distill(loader, teacher, student, optimizer):
    teacher.eval()
    student.train()
    for x, y in loader:
        optimizer.zero_grad()
        out = student(x)
        wanted = teacher(x)  # PLM119
        loss = F.kl_div(F.log_softmax(out, 1), F.softmax(wanted, 1)) + F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
large = nn.Sequential(nn.Linear(8, 8)).to(device)
distill(loader, large, model, optimizer)
#: bad 119 detach() comes after the graph is built
large = nn.Sequential(nn.Linear(8, 8)).to(device)
def train():
    model.train()
    large.eval()
    for x, y in loader:
        optimizer.zero_grad()
        wanted = large(x).detach()  # PLM119
        loss = F.mse_loss(model(x), wanted)
        loss.backward()
        optimizer.step()
#: good 119 the caller has frozen it
def freeze(net):
    for p in net.parameters():
        p.requires_grad = False
def distill(loader, teacher, student, optimizer):
    teacher.eval()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(student(x), teacher(x))
        loss.backward()
        optimizer.step()
large = nn.Sequential(nn.Linear(8, 8)).to(device)
freeze(large)
distill(loader, large, model, optimizer)
#: good 119 another optimizer trains it
second = nn.Sequential(nn.Linear(8, 8)).to(device)
second.eval()
both = torch.optim.SGD(list(model.parameters()) + list(second.parameters()))
for x, y in loader:
    both.zero_grad()
    loss = F.mse_loss(model(x), second(x))
    loss.backward()
    both.step()
#: good 119 what goes into the fixed module comes from the trained one
features = nn.Sequential(nn.Linear(8, 8)).to(device)
features.eval()
for x, y in loader:
    optimizer.zero_grad()
    loss = F.mse_loss(features(model(x)), y)
    loss.backward()
    optimizer.step()
#: good 119 pictures that a function makes with the model's gradients
judge = nn.Sequential(nn.Linear(8, 8)).to(device)
judge.eval()
for x, y in loader:
    optimizer.zero_grad()
    changed = disturb(model, x)
    loss = F.mse_loss(model(changed), judge(changed))
    loss.backward()
    optimizer.step()
#: good 119 a class that freezes itself
class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8).requires_grad_(False)
    def forward(self, x):
        return self.layer(x)
fixed = Fixed()
fixed.eval()
for x, y in loader:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), fixed(x))
    loss.backward()
    optimizer.step()
#: good 119 one model, trained in eval mode
model.eval()
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
#: bad 119 a generator in the step of its judge
maker = nn.Sequential(nn.Linear(8, 8)).to(device)
judge = nn.Sequential(nn.Linear(8, 1)).to(device)
optimizer_a = torch.optim.Adam(maker.parameters())
optimizer_b = torch.optim.Adam(judge.parameters())
for x, y in loader:
    optimizer_b.zero_grad()
    made = maker(torch.randn(8, 8))  # PLM119
    loss = judge(made).mean() - judge(x).mean()
    loss.backward()
    optimizer_b.step()
    optimizer_a.zero_grad()
    loss = -judge(maker(torch.randn(8, 8))).mean()
    loss.backward()
    optimizer_a.step()
#: bad 119 the graph is kept for both steps, with a penalty in a function
maker = nn.Sequential(nn.Linear(8, 8)).to(device)
judge = nn.Sequential(nn.Linear(8, 1)).to(device)
optimizer_a = torch.optim.Adam(maker.parameters())
optimizer_b = torch.optim.Adam(judge.parameters())
for x, y in loader:
    optimizer_b.zero_grad()
    made = maker(torch.randn(8, 8))  # PLM119
    loss = judge(made).mean() - judge(x).mean() + penalty(judge, x, made)
    loss.backward(retain_graph=True)
    optimizer_b.step()
    optimizer_a.zero_grad()
    loss = -judge(made).mean()
    loss.backward()
    optimizer_a.step()
#: good 119 detached for the judge
maker = nn.Sequential(nn.Linear(8, 8)).to(device)
judge = nn.Sequential(nn.Linear(8, 1)).to(device)
optimizer_a = torch.optim.Adam(maker.parameters())
optimizer_b = torch.optim.Adam(judge.parameters())
for x, y in loader:
    optimizer_b.zero_grad()
    made = maker(torch.randn(8, 8))
    loss = judge(made.detach()).mean() - judge(x).mean()
    loss.backward()
    optimizer_b.step()
    optimizer_a.zero_grad()
    loss = -judge(made).mean()
    loss.backward()
    optimizer_a.step()
#: good 119 two parts whose gradients add up before both steps
front = nn.Sequential(nn.Linear(8, 8)).to(device)
back = nn.Sequential(nn.Linear(8, 1)).to(device)
optimizer_a = torch.optim.Adam(front.parameters())
optimizer_b = torch.optim.Adam(back.parameters())
for x, y in loader:
    optimizer_a.zero_grad()
    optimizer_b.zero_grad()
    loss = F.mse_loss(back(front(x)), y)
    loss.backward()
    optimizer_b.step()
    optimizer_a.step()
#: bad 105 gradients with a graph, used without
def update(net, loss):
    params = list(net.parameters())
    slopes = torch.autograd.grad(loss, params, create_graph=True)  # PLM105
    with torch.no_grad():
        for p, slope in zip(params, slopes):
            p.copy_(p - 0.1 * slope)
#: bad 105 pictures of an attack
moved = []
for x, y in loader:
    x = x.to(device).requires_grad_()
    slope, = torch.autograd.grad(criterion(model(x), y), x, create_graph=True)  # PLM105
    moved.append((x + 0.1 * slope.sign()).detach())
#: good 105 a penalty on the gradients
for x, y in loader:
    x = x.to(device).requires_grad_()
    out = model(x)
    slope = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    loss = criterion(out, y) + (slope.norm(2, dim=1) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: good 105 the caller may differentiate what is returned
def slope_of(net, x):
    return torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
def curvature(net, x):
    slope = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
    return hessian(slope, x)

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
#: bad 110 a rollout inside training, whose state goes from step to step
class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(3, 40)
        self.head = nn.Linear(40, 2)
    def forward(self, x, state):
        x, state = self.cell(x, state)
        return self.head(x), state
def roll(actor, env, seen):
    states, actions = [], []
    h = c = torch.zeros(1, 1, 40)
    for step in range(100):
        states.append(seen)
        out, (h, c) = actor(torch.tensor([[seen]]), (h, c))  # PLM110
        action = int(out.argmax())
        seen = env.step(action)
        actions.append(action)
    return states, actions
def play(env):
    actor = Actor()
    solver = torch.optim.Adam(actor.parameters())
    for episode in range(50):
        states, actions = roll(actor, env, env.reset())
        out, last = actor(torch.tensor(states), None)
        loss = F.cross_entropy(out, torch.tensor(actions))
        solver.zero_grad()
        loss.backward()
        solver.step()
        if episode % 10 == 0:
            seen, state = env.reset(), None
            for step in range(500):
                out, state = actor(torch.tensor([[seen]]), state)  # PLM110
                seen = env.step(int(out.argmax()))
#: good 110 what the loop inside makes is read by the next iteration
carried = torch.zeros(8, 8)
for x, y in loader:
    loss = criterion(model(x), y) + carried.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for part in range(3):
        carried = model(x)
#: good 110 log probabilities of a rollout are sent backward
from torch.distributions import Categorical
for episode in range(9):
    kept = []
    for step in range(100):
        chance = Categorical(logits=model(seen))
        action = chance.sample()
        kept.append(chance.log_prob(action))
        seen = env.step(int(action))
    loss = -torch.stack(kept).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: bad 104 a state by way of a name
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8)
        self.hidden = None
    def forward(self, x):
        out, new = self.rnn(x, self.hidden)
        self.hidden = new  # PLM104
        return out
net = Net()
solver = torch.optim.Adam(net.parameters())
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    solver.step()
    solver.zero_grad()
#: good 104 detached by way of a name
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8)
        self.hidden = None
    def forward(self, x):
        out, new = self.rnn(x, self.hidden)
        self.hidden = new.detach()
        return out
net = Net()
solver = torch.optim.Adam(net.parameters())
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    solver.step()
    solver.zero_grad()
#: bad 104 a memory that is read and written by way of names
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(16, 8)
        self.register_buffer("memory", torch.zeros(8, 8))
    def forward(self, x):
        both = torch.cat([x, self.memory], 1)
        new = torch.tanh(self.cell(both))
        self.memory = new  # PLM104
        return new
#: good 104 the memory is read without its graph
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(16, 8)
        self.register_buffer("memory", torch.zeros(8, 8))
    def forward(self, x):
        both = torch.cat([x, self.memory.detach()], 1)
        new = torch.tanh(self.cell(both))
        self.memory = new
        return new
#: bad 106 an agent that never empties its log probabilities
from torch.distributions import Categorical
class Agent:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(4, 2)).to(device)
        self.chances = []
    def act(self, seen):
        chance = Categorical(logits=self.policy(seen))
        action = chance.sample()
        self.chances.append(chance.log_prob(action))  # PLM106
        return action.item()
agent = Agent()
for step in range(1000):
    agent.act(torch.zeros(4))
#: good 106 another object's method empties them
from torch.distributions import Categorical
class Agent:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(4, 2)).to(device)
        self.chances = []
    def act(self, seen):
        chance = Categorical(logits=self.policy(seen))
        action = chance.sample()
        self.chances.append(chance.log_prob(action))
        return action.item()
agent = Agent()
for episode in range(1000):
    for step in range(100):
        agent.act(torch.zeros(4))
    learn(torch.stack(agent.chances))
    del agent.chances[:]
#: bad 403 a list of references
history = []
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    history.append(model.state_dict())  # PLM403
#: good 403 a model for each client
history = []
for client in range(9):
    net = copy.deepcopy(model)
    solver = torch.optim.SGD(net.parameters())
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        solver.step()
        solver.zero_grad()
    history.append(net.state_dict())
#: bad 115 copies of the weights on the GPU
history = []
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    history.append({k: v.clone() for k, v in model.state_dict().items()})  # PLM115
    other = copy.deepcopy(model.state_dict())
#: good 115 copies on the CPU
history = []
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    history.append({k: v.cpu().clone() for k, v in model.state_dict().items()})
#: bad 102 a comprehension of training steps
def step(x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
losses = [step(x, y) for x, y in loader]  # PLM102
#: good 102 numbers of training steps
def step(x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
losses = [step(x, y) for x, y in loader]
#: good 111 a few pictures of a grid
model.eval()
grid = []
with torch.no_grad():
    for step in range(10):
        grid.append(model(torch.zeros(8, 8, device=device)))
#: good 119 the maker is frozen while the judge is trained
def trainable(net, on):
    for p in net.parameters():
        p.requires_grad = on
maker = nn.Sequential(nn.Linear(8, 8)).to(device)
judge = nn.Sequential(nn.Linear(8, 1)).to(device)
optimizer_a = torch.optim.Adam(maker.parameters())
optimizer_b = torch.optim.Adam(judge.parameters())
for x, y in loader:
    trainable(maker, False)
    optimizer_b.zero_grad()
    loss = judge(maker(torch.randn(8, 8))).mean() - judge(x).mean()
    loss.backward()
    optimizer_b.step()
    trainable(maker, True)
    optimizer_a.zero_grad()
    loss = -judge(maker(torch.randn(8, 8))).mean()
    loss.backward()
    optimizer_a.step()
#: bad 701 detach() of what a module returned, thrown away
net = nn.Sequential(nn.Linear(8, 8)).to(device)
for x, y in loader:
    value = net(x)
    value.detach()  # PLM701
    loss = F.mse_loss(model(x), value)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
#: bad 119 a generator whose weights are clipped by a function for apply()
class Clip:
    def __call__(self, part):
        if hasattr(part, "scale"):
            part.scale.data.clamp_(0, 1)
clip = Clip()
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
    maker.apply(clip)
#: bad 110 a fixed member from torch.load in a training step
class Trainer:
    def __init__(self):
        self.guide = torch.load("guide.pt")
        self.guide.eval().to("cuda")
        self.guide.eval()
        self.net = nn.Sequential(nn.Linear(8, 8)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
    def step(self, x):
        wanted = self.guide(x)  # PLM110
        loss = F.mse_loss(self.net(x), wanted.detach())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
#: bad 119 a pass of which nothing is used, in a function that is the whole step
class Steps:
    def __init__(self):
        self.judge = nn.Sequential(nn.Linear(8, 8)).cuda()
        self.net = nn.Sequential(nn.Linear(8, 8)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
    def step(self, x):
        real = self.judge(x)  # PLM119
        score = real[0]
        loss = self.judge(self.net(x)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
#: bad 119 the judge's loss and its step are functions
maker, judge = nn.Sequential(nn.Linear(8, 8)).cuda(), nn.Sequential(nn.Linear(8, 1)).cuda()
maker_steps = torch.optim.Adam(maker.parameters())
judge_steps = torch.optim.Adam(judge.parameters())
def make(n):
    return maker(torch.randn(n, 8, device="cuda"))
def judged(real, fake):
    return F.softplus(-judge(real)).mean() + F.softplus(judge(fake)).mean()
def step(real, fake):
    judge_steps.zero_grad()
    loss = judged(real, fake)
    loss.backward()
    judge_steps.step()
def train(real):
    for _ in range(9):
        fake = maker(torch.randn(8, 8, device="cuda"))  # PLM119
        step(real, fake)
        maker_steps.zero_grad()
        judge(make(8)).mean().backward()
        maker_steps.step()
def made_by_a_function(real):
    for _ in range(9):
        fake = make(8)  # PLM119
        judge_steps.zero_grad()
        loss = judged(real, fake)
        loss.backward()
        judge_steps.step()
        maker_steps.zero_grad()
        judge(make(8)).mean().backward()
        maker_steps.step()
#: bad 119 each player's step is a method
class Game:
    def __init__(self):
        self.maker, self.judge = nn.Sequential(nn.Linear(8, 8)).cuda(), nn.Sequential(nn.Linear(8, 1)).cuda()
        self.maker_steps = torch.optim.Adam(self.maker.parameters())
        self.judge_steps = torch.optim.Adam(self.judge.parameters())
    def judge_step(self, real):
        fake = self.maker(torch.randn(8, 8, device="cuda"))  # PLM119
        self.judge_steps.zero_grad()
        loss = self.judge(fake).mean() - self.judge(real).mean()
        loss.backward()
        self.judge_steps.step()
    def maker_step(self):
        self.maker_steps.zero_grad()
        loss = -self.judge(self.maker(torch.randn(8, 8, device="cuda"))).mean()
        loss.backward()
        self.maker_steps.step()
#: good 119 each player's step is a method, and the gradients of one are used by the other's
class Game:
    def __init__(self):
        self.maker, self.judge = nn.Sequential(nn.Linear(8, 8)).cuda(), nn.Sequential(nn.Linear(8, 1)).cuda()
        self.maker_steps = torch.optim.Adam(self.maker.parameters())
        self.judge_steps = torch.optim.Adam(self.judge.parameters())
    def judge_step(self, real):
        fake = self.maker(torch.randn(8, 8, device="cuda"))
        self.judge_steps.zero_grad()
        loss = self.judge(fake).mean() - self.judge(real).mean()
        loss.backward()
        self.judge_steps.step()
    def maker_step(self):
        self.maker_steps.step()
        self.maker_steps.zero_grad()
#: good 119 the function cuts the graph off
maker, judge = nn.Sequential(nn.Linear(8, 8)).cuda(), nn.Sequential(nn.Linear(8, 1)).cuda()
maker_steps = torch.optim.Adam(maker.parameters())
judge_steps = torch.optim.Adam(judge.parameters())
def judged(real, fake):
    return F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
def train(real):
    for _ in range(9):
        fake = maker(torch.randn(8, 8, device="cuda"))
        judge_steps.zero_grad()
        loss = judged(real, fake)
        loss.backward()
        judge_steps.step()
        maker_steps.zero_grad()
        judge(fake).mean().backward()
        maker_steps.step()
#: good 119 the discriminator cuts the graph of what it is given, if it is asked to
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
    def forward(self, x, alone=False):
        if alone:
            x = x.detach()
        return self.layer(x)
maker, judge = nn.Linear(8, 8).to(device), Judge().to(device)
maker_optimizer = torch.optim.Adam(maker.parameters())
judge_optimizer = torch.optim.Adam(judge.parameters())
for x, y in loader:
    made = maker(torch.randn(4, 8, device=device))
    judge_optimizer.zero_grad()
    loss = judge(made, alone=True).mean() - judge(x).mean()
    loss.backward()
    judge_optimizer.step()
    maker_optimizer.zero_grad()
    (-judge(made)).mean().backward()
    maker_optimizer.step()

# Single passes: what is used of their results decides whether a graph is needed.

#: bad 110 a picture now and then
from torchvision.utils import save_image
def sample_images(done):
    z = torch.randn(16, 8).to(device)
    made = model(z)  # PLM110
    save_image(made.data, f"{done}.png")

for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    sample_images(epoch)

#: bad 110 one sample, and its class
def predict(x):
    net = torch.load("model.pt")
    net.eval()
    out = net(x.to(device))  # PLM110
    return out.argmax(1)

#: bad 110 only the indices of topk()
def top(x):
    net = torch.load("model.pt")
    net.eval()
    scores = net(x.to(device)).view(-1)  # PLM110
    best, where = scores.topk(3)
    print(best)
    return where

#: bad 110 in a training step, whose own pass has the same name
for x, y in loader:
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    out = model(y)  # PLM110
    print(out.mean().item())

#: bad 110 a loss that never goes backward
for x, y in loader:
    out = model(x.to(device))
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    again = model(y)  # PLM110
    other = criterion(again, y)
    print(other.item())

#: good 110 what float() gives still has the graph
for x, y in loader:
    out = model(x.to(device)).float() / 2
    logs = out.log_softmax(-1)
    logs.sum().backward()
    print(out.shape)
    optimizer.step()
    optimizer.zero_grad()

#: good 110 the graph of two results is needed by one of them
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
    def forward(self, x):
        return self.a(x), self.b(x) + Extra(x)
two = Two().to(device)
def spread(a):
    return (a * a).mean()
for x, y in loader:
    a, b = two(x)
    loss = spread(a) + criterion(b, y)
    loss.backward()
    print(a.shape)
    optimizer.step()
    optimizer.zero_grad()

#: good 110 detached at once in a training step
for x, y in loader:
    before = model(x.to(device)).detach()
    loss = criterion(model(x) + before, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

#: good 110 a caller gets it
def embed(x):
    model.eval()
    out = model(x.to(device))
    print(out.shape)
    return out

#: good 110 an object keeps it, another function reads it
class Trainer:
    def look(self, x):
        model.eval()
        out = model(x.to(device))
        print(out.shape)
        self.last = out
def show():
    print(seen)
model.eval()
seen = model(torch.zeros(1, 8).to(device))
print(seen.shape)

#: good 110 given to what may do anything with it
def ask(x, judge):
    model.eval()
    out = model(x.to(device))
    judge.take(out)
    print(out.shape)

#: good 110 a test compares
def check(x, y):
    model.eval()
    out = model(x.to(device))
    assert torch.equal(out, y)

#: good 110 no gradients
@torch.no_grad()
def quick(x):
    model.eval()
    out = model(x.to(device))
    print(out.argmax(1))

#: good 406 the best weights are tried when the training is over
for epoch in range(9):
    torch.save(model.state_dict(), "best.pt")
model.load_state_dict(torch.load("best.pt", map_location="cpu"))


#: bad 119 a loss that is made again before it is used
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
    def forward(self, x):
        return self.a(x)
critic = Critic().to(device)
judge = torch.optim.SGD(critic.parameters(), lr=0.1)
for x, y in loader:
    guess = critic(x)  # PLM119
    loss = criterion(guess, y)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

#: good 119 the pass writes to the module
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
    def forward(self, x):
        self.seen = self.a(x)
        return self.seen
critic = Critic().to(device)
judge = torch.optim.SGD(critic.parameters(), lr=0.1)
for x, y in loader:
    guess = critic(x)
    loss = criterion(critic.seen, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

#: good 119 a hook takes what it needs
taken = []
model.register_forward_hook(lambda m, i, o: taken.append(o.detach().cpu()) or None)
for x, y in loader:
    seen = model(x)
    loss = criterion(model(y), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    taken.clear()

#: bad 110 a function, and an object that is not a module, run the model for the loop
class Actor:
    def __init__(self, net):
        self.net = net
    def choose(self, state):
        return self.net(state).argmax(-1)
def answer(net, picture):
    return net(picture).softmax(-1).argmax(-1)
actor = Actor(model)
for picture in pictures:
    print(answer(model, picture))  # PLM110
while running:
    state = play(actor.choose(state))  # PLM110

#: good 110 what runs the model keeps what the update goes back through
class Player:
    def __init__(self, net):
        self.net = net
        self.kept = []
    def choose(self, state):
        chances = torch.distributions.Categorical(self.net(state))
        action = chances.sample()
        self.kept.append(chances.log_prob(action))
        return action.item()
player = Player(model)
while running:
    state = play(player.choose(state))
sum(player.kept).backward()
optimizer.step()
player.kept.clear()

#: good 110 a function that turns gradients off by itself
@torch.no_grad()
def answer(net, picture):
    return net(picture).argmax(-1)
for picture in pictures:
    print(answer(model, picture))

#: good 110 a function that only makes a layer for itself
def shares(scores):
    softmax = nn.Softmax(-1)
    return nn.Sigmoid()(scores), softmax(scores)
for picture in pictures:
    kept = shares(picture)
    print(kept)

#: good 110 the function that loads it freezes it
class Viewer:
    def __init__(self):
        self.net = self.load()
    def load(self):
        net = nn.Sequential(nn.Linear(8, 8))
        for weight in net.parameters():
            weight.requires_grad = False
        net.eval()
        return net.cuda()
    def look(self, pictures):
        for picture in pictures:
            print(self.net(picture).argmax(-1))

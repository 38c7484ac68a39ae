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

#: bad 110 119 what the body of the script makes, under its test of __name__, its functions know
def play(game):
    global steps
    for steps in range(99):
        chances = judge.forward(game.cuda())  # PLM119
        move = pick(policy(game))  # PLM110
        game = act(game, move)
        learn(game)
def pick(chances):
    return torch.distributions.Categorical(chances.softmax(-1)).sample().item()
def learn(game):
    loss = (judge(game) - old(game).max(1)[0].detach()).mean()  # PLM110
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if __name__ == "__main__":
    policy, judge, old = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()
    old.load_state_dict(judge.state_dict())
    judge.eval(), policy.eval()
    optimizer = torch.optim.Adam(judge.parameters())
    play(first)

#: bad 110 an argument decides whether the epoch trains, and the caller puts the model into eval mode
class Teacher:
    def __init__(self, student, criterion, optimizer):
        self.student, self.criterion, self.optimizer = student, criterion, optimizer
    def epoch(self, batches, mode):
        total = 0
        for x, y in batches:
            loss = self.criterion(self.student(x), y)  # PLM110
            if mode == "train":
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            total += loss.item()
        return total
    def run(self):
        self.student.train()
        self.epoch(loader, "train")
        self.student.eval()
        print(self.epoch(loader, "test"))
Teacher(nn.Linear(8, 8).cuda(), nn.MSELoss(), optimizer).run()

#: good 110 the caller turns gradients off for it
def epoch(net, batches, learns):
    for x, y in batches:
        loss = criterion(net(x), y)
        if learns:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
model.train()
epoch(model, loader, True)
model.eval()
with torch.no_grad():
    epoch(model, loader, False)

#: good 102 103 a metric that is a module and counts, a loss that comes with a number
class Right(nn.Module):
    def forward(self, out, y):
        return (out.argmax(1) == y).sum().item(), y.numel()
class Judge:
    def __init__(self, metric, criterion):
        self.metric, self.criterion = metric, criterion
    def run(self):
        right, sizes = [], []
        for x, y in loader:
            out = model(x)
            loss, size = self.criterion(out, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            good, _ = self.metric(out, y)
            right.append(good)
            sizes.append(size)
        return sum(right) / sum(sizes)
Judge(Right(), loss_of).run()

#: good 803 a scheduler of the script's own sets the rate before the step
def train(scheduler):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        rate = scheduler.step()
        optimizer.step()
        optimizer.zero_grad()
    print(scheduler.get_last_lr())

#: bad 110 what has an eval() without arguments is a module, of whatever library
from faces import Recogniser
class Gallery:
    def __init__(self):
        self.finder, self.reader = self.load()
    def load(self):
        return Recogniser("small").eval().cuda(), Recogniser("large").eval().cuda()
    def scores(self, pictures):
        for picture in pictures:
            print(self.reader(picture).norm().item())  # PLM110

#: good 103 a module of the file whose result is not seen to carry a graph
from cutting import cut
class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
    def forward(self, picture, chances=False):
        with torch.no_grad():
            boxes, sure = self.net(picture).split(4)
        if chances:
            return cut(picture, boxes), sure.numpy()
        return cut(picture, boxes)
find, faces = Finder(), []
for picture in pictures:
    face = find(picture)
    if face is not None:
        faces.append(face)
torch.stack(faces)
#: bad 110 a function loads the model, or puts it into eval mode
import zoo
def load(path):
    net = zoo.make(path)
    net.load_state_dict(torch.load(path))
    net.to(device).eval()
    return net
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x)
def build(name):
    net = Net()
    net.to(device)
    net.eval()
    return net
def show(pictures):
    worker = build("b")
    for picture in pictures:
        print(worker(picture).argmax().item())  # PLM110
class Shows:
    def __init__(self, path):
        self.worker = load(path)
    def all(self, pictures):
        for picture in pictures:
            print(self.worker(picture).argmax().item())  # PLM110
#: good 110 the pass goes backward by itself, or asks for gradients in a function that it calls
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.steps = torch.optim.SGD(self.net.parameters(), 0.1)
    def forward(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        self.steps.zero_grad()
        loss.backward()
        self.steps.step()
        return loss.item()
    def tuned(self, x, y):
        return torch.autograd.grad(F.mse_loss(self.net(x), y), self.net.weight)
    def sizes(self, x, y):
        return self.tuned(x, y)[0].norm().item()
learner = Learner().cuda()
learner.eval()
for x, y in loader:
    print(learner.sizes(x, y))
def once(x, y):
    return learner(x, y)
print(once(x, y))
#: bad 110 a method that asks for gradients, and makes a pass for a number
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.steps = torch.optim.SGD(self.net.parameters(), 0.1)
    def forward(self, x, y, others):
        right = 0
        for a, b in others:
            before = self.net(a)  # PLM110
            with torch.no_grad():
                right += before.argmax().eq(b).sum().item()
            weights = torch.autograd.grad(F.mse_loss(self.net(x), y), self.net.weight)
            print(weights[0].norm().item())
        loss = F.mse_loss(self.net(x), y)
        self.steps.zero_grad()
        loss.backward()
        self.steps.step()
        return right
#: good 110 only the shape of what a pass returns is read
def shapes(x):
    net = nn.Sequential(nn.Linear(8, 8)).cuda()
    net.load_state_dict(torch.load("net.pt"))
    out = net(x)
    assert len(out) == 8
    print(out.shape)
#: good 110 a function freezes the model that it loads
def load(path):
    net = nn.Sequential(nn.Linear(8, 8))
    net.requires_grad_(False)
    net.load_state_dict(torch.load(path))
    return net.eval()
def show(pictures):
    worker = load("net.pt")
    for picture in pictures:
        print(worker(picture).argmax().item())
#: good 110 a function made the model in eval mode, and another method trains it
def load(path):
    net = nn.Sequential(nn.Linear(8, 8)).cuda()
    net.load_state_dict(torch.load(path))
    net.eval()
    return net
class Shows:
    def __init__(self, path):
        self.worker = load(path)
        self.worker.train()
    def all(self, pictures):
        kept = []
        for picture in pictures:
            kept.append(self.worker(picture))
        return kept
#: bad 110 train(False) is eval mode
def score(net, batches):
    right = []
    for x, y in batches:
        tags = net(x.to(device))  # PLM110
        right.append(int(tags.argmax(1).sum() == y.sum()))
    return sum(right)

net = nn.Linear(8, 8)
batches = [(torch.zeros(4, 8), torch.zeros(4)) for _ in range(3)]
for epoch in range(3):
    net.train(True)
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    net.train(False)
    print(score(net, batches))
#: bad 110 what a method of a module samples, and prints
class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(8, 8)
        self.out = nn.Linear(8, 8)
    def forward(self, x):
        return self.out(self.cell(x)[0])
    def write(self, x):
        found = []
        for _ in range(5):
            hidden, _ = self.cell(x)
            best = self.out(hidden).argmax(-1)
            found.append(best)
        return torch.stack(found)
writer = Writer().to(device)
writer.load_state_dict(torch.load("writer.pt"))
writer.eval()
print([w.item() for w in writer.write(torch.zeros(1, 1, 8).to(device))[0]])  # PLM110
#: good 110 the module's method keeps what its pass returns
class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 8)
        self.scores = []
    def write(self, x):
        scores = self.out(x)
        self.scores.append(scores)
        return scores.argmax(-1)
writer = Writer().to(device)
writer.load_state_dict(torch.load("writer.pt"))
print(writer.write(torch.zeros(1, 8).to(device)).item())
#: bad 110 players that an object has choose, in front of the step that trains them
class Player:
    def __init__(self, noise=None):
        self.policy = nn.Linear(8, 2)
        self.noise = noise
    def choose(self, seen):
        return self.policy(seen).clamp(-1, 1)
class Team:
    def __init__(self, count):
        self.players = [Player() for _ in range(count)]
        self.optimizer = torch.optim.Adam(self.players[0].policy.parameters())
    @classmethod
    def of(cls, count):
        return cls(count)
    def choose(self, seen):
        return [p.choose(s) for p, s in zip(self.players, seen)]
    def learn(self, batch):
        loss = self.players[0].policy(batch).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
def play(world, store, ways):
    team = Team.of(2)
    seen = world.reset()
    for turn in range(100):
        moves = team.choose([torch.tensor(s).to(device) for s in seen])  # PLM110
        made = {}
        for way, move in zip(ways, moves):
            made[way] = move.data.cpu().numpy()
        seen = world.step(made)
        store.push([made[way] for way in ways])
        team.learn(store.sample())
#: good 110 the player keeps what it learns from
class Player:
    def __init__(self):
        self.policy = nn.Linear(8, 2)
        self.likely = []
    def choose(self, seen):
        scores = self.policy(seen).log_softmax(-1)
        self.likely.append(scores.max())
        return scores.clamp(-1, 1)
def play(world, player):
    seen = world.reset()
    for turn in range(100):
        seen = world.step(player.choose(torch.tensor(seen).to(device)).data.cpu().numpy())
    torch.stack(player.likely).sum().backward()
    player.likely.clear()
play(World(), Player())
#: good 110 a function makes the module that it runs
class Coded(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
    def forward(self, x):
        return self.first(x)
def coded(x):
    made = Coded().to(device)
    return made(x)
def main():
    print(coded(torch.zeros(1, 8)).mean())
#: good 110 all that the method's module does is to look up
class Words:
    def __init__(self):
        self.table = nn.Embedding(9, 8)
    def at(self, x):
        return self.table(x)
def main():
    words = Words()
    print(words.at(torch.zeros(1).long().to(device)).mean())
#: bad 110 the class could freeze its first layer, and nothing asks for that
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.last(self.first(x))
    def hold(self):
        for p in self.first.parameters():
            p.requires_grad = False
net = Net().to(device)
net.load_state_dict(torch.load("net.pt"))
seen, total = world.reset(), 0
while total < 9:
    move = net(torch.tensor(seen)).data.numpy()  # PLM110
    seen, gain = world.step(move)
    total += gain
#: good 110 the same, and it is asked for
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.last(self.first(x))
    def hold(self):
        for p in self.first.parameters():
            p.requires_grad = False
net = Net().to(device)
net.load_state_dict(torch.load("net.pt"))
net.hold()
seen, total = world.reset(), 0
while total < 9:
    move = net(torch.tensor(seen)).data.numpy()
    seen, gain = world.step(move)
    total += gain
#: bad 110 a function of the file shows what came out
def show(pictures, where):
    for at, picture in enumerate(pictures):
        print(where, at, picture.mean())
def main():
    net = torch.load("net.pt").to(device)
    net.eval()
    made = net(torch.zeros(3, 8).to(device))  # PLM110
    show(made, "out")
#: good 110 a function of the file keeps what came out
shown = []
def show(pictures):
    shown.append(pictures)
def main():
    net = torch.load("net.pt").to(device)
    net.eval()
    made = net(torch.zeros(3, 8).to(device))
    show(made)
#: bad 110 the place of the best score is returned
class Chooser(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
chooser = Chooser().to(device)
teach = torch.optim.Adam(chooser.parameters())
def choose(seen):
    return chooser(seen).max(1)[1].view(1, 1)  # PLM110
def play(world):
    seen = world.reset()
    for turn in range(100):
        move = choose(seen)
        seen = world.step(move.item())
        loss = chooser(seen).mean()
        teach.zero_grad()
        loss.backward()
        teach.step()
#: bad 110 a picture now and then, by the function that the training step calls
def render(net, rays):
    parts = []
    for at in range(0, rays.shape[0], 1024):
        parts.append(net(rays[at:at + 1024]))
    return torch.cat(parts)
field = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 3)).to(device)
teach = torch.optim.Adam(field.parameters())
for turn in range(1000):
    made = render(field, some_rays)
    loss = ((made - wanted) ** 2).mean()
    teach.zero_grad()
    loss.backward()
    teach.step()
    if turn % 100 == 0:
        seen = render(field, other_rays)  # PLM110
        plt.imsave("seen.png", seen.cpu().detach().numpy())
#: bad 110 a counted loop whose words go into the next pass as numbers
def write(net, first):
    net.eval()
    words = [first]
    for i in range(50):
        out = net(torch.tensor(words).to(device))  # PLM110
        words.append(out.argmax(2)[-1].item())
    return words
#: bad 110 a hook that Lightning calls in a training, for what it logs
class Tuned(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 2).cuda()
    def forward(self, x):
        return self.net(x)
    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.eval()
        logits = self(batch[0])  # PLM110
        preds = torch.argmax(logits, dim=-1)
        self.seen.update(preds, batch[1])
        self.train()
#: good 110 the same, by hand and backward
class ByHand(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 2).cuda()
    def forward(self, x):
        return self.net(x)
    def on_train_batch_end(self, outputs, batch, batch_idx):
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.manual_backward(loss)
#: good 110 a hook of an evaluation, which runs without gradients
class Checked(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 2).cuda()
    def forward(self, x):
        return self.net(x)
    def on_validation_batch_end(self, outputs, batch, batch_idx):
        preds = torch.argmax(self(batch[0]), dim=-1)
        self.seen.update(preds, batch[1])

"""Trains a small convolutional net on handwritten digits (or images of clothes).

  python examples/mnist.py --folder path/to/mnist      the four IDX files
  python examples/mnist.py --fashion                   the distribution's package dataset-fashion-mnist
  python examples/mnist.py --synthetic                 made-up images, for a quick try
"""

import argparse

from lathe import Context, Tensor, TinyJit, nn


class Net:
    def __init__(self):
        self.layers = [
            nn.Conv2d(1, 16, 5), Tensor.relu,
            nn.Conv2d(16, 16, 5), nn.BatchNorm(16), Tensor.relu, Tensor.max_pool2d,
            nn.Conv2d(16, 32, 3), Tensor.relu,
            nn.Conv2d(32, 32, 3), nn.BatchNorm(32), Tensor.relu, Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(288, 10),
        ]  # fmt: skip

    def __call__(self, x):
        return x.sequential(self.layers)


def synthetic(count):
    """Images with a bright square whose place tells the class."""
    labels = Tensor.randint(count, low=0, high=10)
    place = labels.reshape(-1, 1, 1, 1)
    row, column = Tensor.arange(28).reshape(1, 1, 28, 1), Tensor.arange(28).reshape(1, 1, 1, 28)
    square = (row // 6 == place // 4) & (column // 7 == place % 4)
    return (square * 200 + Tensor.randint(count, 1, 28, 28, low=0, high=50)).cast("uint8").realize(), labels.realize()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    parser.add_argument("--fashion", action="store_true")
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument("--batch", type=int, default=512)
    args = parser.parse_args(arguments)

    Tensor.manual_seed(42)
    if args.synthetic:
        (x_train, y_train), (x_test, y_test) = synthetic(2000), synthetic(500)
    else:
        x_train, y_train, x_test, y_test = nn.datasets.mnist(fashion=args.fashion, folder=args.folder)

    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = net(x.float() / 255).sparse_categorical_crossentropy(y.int()).backward()
        optimizer.step()
        return loss

    @TinyJit
    def right_answers(x, y):
        return (net(x.float() / 255).argmax(axis=1) == y.int()).sum()

    with Context(TRAINING=1):
        for i in range(args.steps):
            chosen = Tensor.randint(args.batch, low=0, high=len(x_train)).realize()
            loss = step(x_train[chosen].realize(), y_train[chosen].realize())
            if i % 10 == 9 or i == args.steps - 1:
                print(f"step {i + 1}: loss {loss.item():.3f}")
    right, batch = 0, min(500, len(x_test))
    for begin in range(0, len(x_test) - batch + 1, batch):
        right += right_answers(x_test[begin : begin + batch].contiguous().realize(), y_test[begin : begin + batch].contiguous().realize()).item()
    accuracy = right / (len(x_test) // batch * batch)
    print(f"accuracy {100 * accuracy:.1f} %")
    return accuracy


if __name__ == "__main__":
    main()

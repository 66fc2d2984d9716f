"""Examples of torch's documentation and tutorials, as they are printed there.

Each is run twice: with `torch` being torch, and with `torch` being `Torch` below, which has torch's
spelling for what NumPy and `fdiff.autograd` have. `shown` gives what is compared at the end.
"""

import numpy as np

import fdiff.autograd as recorded


class Torch:
    """The names of torch that the examples use."""

    autograd = recorded
    no_grad, enable_grad = recorded.no_grad, recorded.enable_grad
    set_grad_enabled, inference_mode = recorded.set_grad_enabled, recorded.inference_mode
    float64, mean, sum, exp, sin = np.float64, np.mean, np.sum, np.exp, np.sin
    allclose = lambda a, b: np.allclose(a.detach(), b.detach())

    @staticmethod
    def tensor(data, requires_grad=False):
        return recorded.tensor(data, requires_grad=requires_grad)

    @staticmethod
    def ones(*shape, requires_grad=False):
        return recorded.tensor(np.ones(shape), requires_grad=requires_grad)

    @staticmethod
    def zeros(*shape, requires_grad=False):
        return recorded.tensor(np.zeros(shape), requires_grad=requires_grad)


# Title: text, names that are shown, and what torch's page says they are, where it does.
EXAMPLES = {
    "tutorial: mean of three squares": (
        """
x = torch.ones(2, 2, requires_grad=True)
y = x + 2
z = y * y * 3
out = z.mean()
before = out.item()
out.backward()
""",
        {"before": 27.0, "x.grad": [[4.5, 4.5], [4.5, 4.5]], "y.requires_grad": True},
    ),
    "tutorial: two passes with retain_graph": (
        """
x = torch.ones(2, 2, requires_grad=True)
y = x + 2
y.backward(torch.ones(2, 2), retain_graph=True)
first = x.grad.clone()
z = y * y
gradient = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
z.backward(gradient)
""",
        {"first": [[1.0, 1.0], [1.0, 1.0]], "x.grad": [[7.0, 13.0], [19.0, 25.0]]},
    ),
    "tutorial: a vector-Jacobian product": (
        """
x = torch.tensor([0.5, -0.2, 1.3], requires_grad=True)
y = x * 2
while (y.detach() * y.detach()).sum() < 1000:
    y = y * 2
v = torch.tensor([0.1, 1.0, 0.0001])
y.backward(v)
""",
        {"x.grad": None, "y": None},
    ),
    "tutorial: the no_grad block": (
        """
x = torch.ones(2, 2, requires_grad=True)
a = x.requires_grad
b = (x ** 2).requires_grad
with torch.no_grad():
    c = (x ** 2).requires_grad
d = x.detach().requires_grad
""",
        {"a": True, "b": True, "c": False, "d": False},
    ),
    "Tensor.register_hook": (
        """
v = torch.tensor([0., 0., 0.], requires_grad=True)
h = v.register_hook(lambda grad: grad * 2)  # double the gradient
v.backward(torch.tensor([1., 2., 3.]))
first = v.grad.clone()
v.grad = None
v.backward(torch.tensor([1., 1., 1.]))
second = v.grad.clone()
h.remove()  # removes the hook
v.backward(torch.tensor([1., 1., 1.]))
""",
        {"first": [2.0, 4.0, 6.0], "second": [2.0, 2.0, 2.0], "v.grad": [3.0, 3.0, 3.0]},
    ),
    "no_grad": (
        """
x = torch.tensor([1.], requires_grad=True)
with torch.no_grad():
    y = x * 2
@torch.no_grad()
def doubler(x):
    return x * 2
z = doubler(x)
@torch.no_grad
def tripler(x):
    return x * 3
w = tripler(x)
with torch.no_grad():
    a = torch.ones(10, requires_grad=True)
""",
        {
            "y.requires_grad": False, "z.requires_grad": False, "w.requires_grad": False,
            "a.requires_grad": True,
        },
    ),
    "enable_grad": (
        """
x = torch.tensor([1.], requires_grad=True)
with torch.no_grad():
    with torch.enable_grad():
        y = x * 2
y.backward()
@torch.enable_grad()
def doubler(x):
    return x * 2
with torch.no_grad():
    z = doubler(x)
""",
        {"y.requires_grad": True, "x.grad": [2.0], "z.requires_grad": True},
    ),
    "set_grad_enabled": (
        """
x = torch.tensor([1.], requires_grad=True)
is_train = False
with torch.set_grad_enabled(is_train):
    y = x * 2
_ = torch.set_grad_enabled(True)
z = x * 2
_ = torch.set_grad_enabled(False)
w = x * 2
_ = torch.set_grad_enabled(True)
""",
        {"y.requires_grad": False, "z.requires_grad": True, "w.requires_grad": False},
    ),
    "inference_mode": (
        """
x = torch.ones(1, 2, 3, requires_grad=True)
with torch.inference_mode():
    y = x * x
@torch.inference_mode()
def func(x):
    return x * x
out = func(x)
""",
        {"y.requires_grad": False, "out.requires_grad": False},
    ),
    "graph: saved results": (
        """
a = torch.tensor([0., 0., 0.], requires_grad=True)
b = a.clone() * 2
is_node = isinstance(b.grad_fn, torch.autograd.graph.Node)
leaf = a.grad_fn is None
name = b.grad_fn.next_functions[0][0].next_functions[0][0].name()
edge = torch.autograd.graph.get_gradient_edge(b)
same = edge.node is b.grad_fn
grad = torch.autograd.grad(b.sum(), [a])[0]
""",
        {"is_node": True, "leaf": True, "same": True, "edge.output_nr": 0, "grad": [2.0] * 3},
    ),
    "graph.Node.register_hook": (
        """
a = torch.tensor([0., 0., 0.], requires_grad=True)
b = a.clone()
handle = b.grad_fn.register_hook(lambda gI, gO: (gO[0] * 2,))
b.sum().backward(retain_graph=True)
first = a.grad.clone()
handle.remove()  # Removes the hook
a.grad = None
b.sum().backward(retain_graph=True)
""",
        {"first": [2.0, 2.0, 2.0], "a.grad": [1.0, 1.0, 1.0]},
    ),
    "graph.Node.register_prehook": (
        """
a = torch.tensor([0., 0., 0.], requires_grad=True)
b = a.clone()
handle = b.grad_fn.register_prehook(lambda gI: (gI[0] * 2,))
b.sum().backward(retain_graph=True)
first = a.grad.clone()
handle.remove()
a.grad = None
b.sum().backward(retain_graph=True)
""",
        {"first": [2.0, 2.0, 2.0], "a.grad": [1.0, 1.0, 1.0]},
    ),
    "graph.Node.metadata": (
        """
a = torch.tensor([1.], requires_grad=True)
b = a * 2
b.grad_fn.metadata["origin"] = 5
found = b.grad_fn.metadata["origin"]
""",
        {"found": 5},
    ),
    "graph.register_multi_grad_hook": (
        """
a = torch.ones(2, 3, requires_grad=True)
b = torch.ones(2, 3, requires_grad=True)
c = a * b
d = a * b
seen = []
def fn(grads):
    seen.append([g is not None for g in grads])
handle = torch.autograd.graph.register_multi_grad_hook((a, b, c, d), fn)
c.sum().backward(retain_graph=True)
c.sum().backward(inputs=(a,), retain_graph=True)
handle.remove()
c.sum().backward()
""",
        {"seen": [[True, True, True, False], [True, False, True, False]]},
    ),
    "graph.saved_tensors_hooks": (
        """
log = []
def pack_hook(x):
    log.append(("Packing", x.detach().sum().item()))
    return x.detach()
def unpack_hook(x):
    log.append(("Unpacking", x.sum().item()))
    return x
a = torch.ones(5, requires_grad=True)
b = torch.ones(5, requires_grad=True) * 2
with torch.autograd.graph.saved_tensors_hooks(pack_hook, unpack_hook):
    y = a * b
y.sum().backward()
counts = [what == "Packing" for what, _ in log], sum(value for _, value in log)
""",
        {"counts[0]": [True, True, False, False], "counts[1]": 30.0, "a.grad": [2.0] * 5},
    ),
    "graph.increment_version": (
        """
a = torch.tensor([1., 2.], requires_grad=True)
b = a * 2
c = b * b
torch.autograd.graph.increment_version(b)
try:
    c.sum().backward()
    failed = False
except RuntimeError:
    failed = True
""",
        {"failed": True},
    ),
    "Tensor.retain_grad": (
        """
x = torch.tensor([1., 2.], requires_grad=True)
y = x * 3
y.retain_grad()
retains = y.retains_grad
(y * y).sum().backward()
""",
        {"y.grad": [6.0, 12.0], "x.grad": [18.0, 36.0], "retains": True},
    ),
    "grad: derivatives of second order": (
        """
x = torch.tensor(3.0, requires_grad=True)
y = x ** 4
(first,) = torch.autograd.grad(y, x, create_graph=True)
(second,) = torch.autograd.grad(first, x, create_graph=True)
(third,) = torch.autograd.grad(second, x)
""",
        {"first": 108.0, "second": 108.0, "third": 72.0},
    ),
    "grad: several rows of a Jacobian at once": (
        """
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x ** 2
rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
jacobian = torch.autograd.grad(y, x, rows, is_grads_batched=True)[0]
""",
        {"jacobian": [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]},
    ),
    "gradients are None until backward, then accumulate": (
        """
x = torch.ones(3, requires_grad=True)
none = x.grad is None
(x * 2).sum().backward()
(x * 3).sum().backward()
total = x.grad.clone()
x.grad = None
""",
        {"none": True, "total": [5.0, 5.0, 5.0]},
    ),
}  # fmt: skip

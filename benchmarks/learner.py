"""An update of an IMPALA-type learner against stock JAX, as ratios measured in one run.

    python benchmarks/learner.py [nature] [impala] [minatar]

One update: forward of T+1 observations, V-trace, the gradient, norm clip and RMSProp; T = 20,
B = 32, one thread. `stock` is the same network and loss in the form accelerators get:
`lax.conv_general_dilated`, `lax.reduce_window`, the whole batch at once, JAX's own gradients.
`nature` and `impala` are one head and one update a call (there XLA treats stock convolutions
best); `minatar` is three heads and 20 updates in a scan, as Anakin runs it. Runs alternate; the
ratio is the median of the ratios of neighbours, the rate is agent steps per CPU-second.

What makes the difference, in microseconds per image of `nature`, inside `lax.scan`, 16 images at
a time (conv 1, 2, 3; the arithmetic at 200 GFLOP/s would take 33, 27, 18), on a machine that
others were using, so roughly:

    forward     stock 37, 30, 24             patches x matrix 72-99, 40-50, 29-38
    dkernel     stock 3968, 2975, 1775       patches x matrix 87, 53, 33     ours 95, 46, 30
    dinput      stock -, 176, 161            patches x matrix -, 37, 40      ours -, 35, 36

- XLA seems to bring a convolution into its CPU kernel's layout in the outermost computation only:
  the two gradients, not the forward pass, are slow in a scan. Writing them in that
  layout is all it takes, and beats patches nearly everywhere; patches stay for the forward pass
  where a kernel's row covers few numbers (`minatar`'s 12: 1.5 to 2.0 against 2.7; `impala`'s
  first: 98 against 265). One layout of the patches or another (space-to-depth first, rows
  first, channels first, bytes converted before or after) moved the patches' figures by 20%.
- dkernel at 8, 16, 32, 160 images at a time: conv 1 88, 85-95, 112, 290. Transposed images of
  more than 16 leave the cache, hence micro-batches of 8 to 16.
- The scan over micro-batches keeps its activations for the backward pass; recomputing them
  cost at most 5% on `nature` and nothing measurable on `impala`. One batch without a scan
  was 0.84 of stock on `nature`.
- Max pool, forward and backward, `impala`'s first: stock 1,930 (select-and-scatter), one
  maximum per axis 205 by JAX's own gradient. Remembering the place gives lax's choice in ties.
- Dense kernels with the output axis first: their gradient is gᵀx, not xᵀg: `minatar`'s 1024x128
  takes 1.7 instead of 3.8 microseconds a row; with the values as a sum instead of a batched
  product its update went from 6.7 to 8.1 times stock.

Where the time still goes: dkernel of the first convolution (85 of about 325 microseconds of
convolutions per `nature` image): 2.5 times its arithmetic, most likely XLA packing strided windows.

What it gave on a two-core x86-64 CPU (AMD EPYC) that did nothing else: `nature` 2,000 steps per
CPU-second, 2.81 times stock's 708; `impala` 217, 2.55 times stock's 85. Asked for were 1,700 and
160. With a load of over 20: 877 and 115, 2.51 and 2.53 times stock's.
"""

import os
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")

import jax
import jax.numpy as jnp
import numpy as np
import optax

from emphatic import losses, ratios, targets
from emphatic.agent import networks

T, B, NUM_ACTIONS = 20, 32, 6
CASES = {
    # observation, dtype, heads, updates a call, repeats
    "nature": ((84, 84, 4), np.uint8, 1, 1, 9),
    "impala": ((84, 84, 4), np.uint8, 1, 1, 3),
    "minatar": ((10, 10, 4), np.bool_, 3, 20, 9),
}


def batch(shape, dtype):
    """Frames of noise, rewards, a uniform behaviour policy."""
    rng = np.random.default_rng(0)
    return {
        "observation": jnp.asarray(rng.integers(0, 256, (T + 1, B, *shape)).astype(dtype)),
        "action": jnp.asarray(rng.integers(0, NUM_ACTIONS, (T, B))),
        "reward": jnp.asarray(rng.standard_normal((T, B), dtype=np.float32)),
        "behaviour": jnp.zeros((T, B, NUM_ACTIONS)),
    }


def impala_loss(logits, value, data):
    """V-trace actor-critic of one head: logits [T, B, A], value [T+1, B]."""
    rho, _ = ratios.from_logits(logits, data["behaviour"], data["action"])
    discount = jnp.full((T, B), 0.99)
    target = targets.vtrace(
        value[:-1], value[1:], data["reward"], discount, rho, n=T, scheme="mixed"
    )
    log_pi_a = losses.log_probability(logits, data["action"])
    policy = losses.policy_gradient(log_pi_a, target.advantage_tm1)
    critic = losses.value(target.value_tm1, value[:-1])
    return (policy + 0.5 * critic - 0.01 * losses.entropy(logits)).mean()


def updates(network, data, heads, count):
    """`count` updates as one function of (params, optimiser state)."""
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0), optax.rmsprop(2e-4, decay=0.99, eps=0.1)
    )

    def loss(params):
        logits, value = network.apply(params, data["observation"])
        return sum(impala_loss(logits[:-1, :, h], value[..., h], data) for h in range(heads))

    def update(state, _):
        params, optimiser_state = state
        step, optimiser_state = optimiser.update(jax.grad(loss)(params), optimiser_state, params)
        return (optax.apply_updates(params, step), optimiser_state), None

    def many(state):
        return update(state, None)[0] if count == 1 else jax.lax.scan(update, state, None, count)[0]

    return optimiser.init, jax.jit(many, donate_argnums=0)


def contender(name, backend):
    """A function that runs one call and gives agent steps per CPU-second."""
    shape, dtype, heads, count, _ = CASES[name]
    config = networks.NetworkConfig(name=name)
    network = networks.build(config, NUM_ACTIONS, heads, backend=backend)
    init, many = updates(network, batch(shape, dtype), heads, count)
    params = network.init(jax.random.key(0), shape)
    state = jax.block_until_ready(many((params, init(params))))

    def run():
        nonlocal state
        start = time.process_time()
        state = jax.block_until_ready(many(state))
        return count * T * B / (time.process_time() - start)

    return run


def main(names):
    print(f"T = {T}, B = {B}; agent steps per CPU-second, one thread")
    for name in names:
        stock, ours = contender(name, "stock"), contender(name, "cpu")
        pairs = [(stock(), ours()) for _ in range(CASES[name][-1])]
        slow, fast = (statistics.median(rates) for rates in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{name:8}  stock {slow:8,.0f}   ours {fast:8,.0f}   ratio {ratio:5.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))

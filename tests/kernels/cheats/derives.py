"""Kernels with derivatives that are right, wrong, or none, by what a person may have written for JAX."""

from __future__ import annotations

from dataclasses import replace

from kernels.spec import Kernel, Tolerance, Work


def waves(xp, x, w):
    """Return w * sin(x), whose sum has the gradients w cos(x) and sin(x)."""
    return w * xp.sin(x)


def _by_rule(backward):
    """Give a builder of ``waves`` with a gradient by hand: ``backward(jnp, jax, x, w, g)`` gives those by x and w."""

    def build():
        import jax
        import jax.numpy as jnp

        @jax.custom_vjp
        def call(x, w):
            return waves(jnp, x, w)

        call.defvjp(lambda x, w: (waves(jnp, x, w), (x, w)), lambda kept, g: backward(jnp, jax, *kept, g))
        return call

    return build


def decorated():
    """Donate an input, as a training step does with its parameters."""
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda x, w: waves(jnp, x, w), donate_argnums=0)


HONEST = Kernel(
    name="waves",
    summary="w * sin(x)",
    sizes={"S": {"n": 300}, "M": {"n": 3000}},
    dtypes=("float32", "float64"),
    inputs=lambda rng, dtype, n: tuple(rng.standard_normal(n).astype(dtype) for _ in range(2)),
    work=lambda itemsize, n: Work(2 * n, 3 * itemsize * n),
    tolerance={"float32": Tolerance(1e-5, 1e-6), "float64": Tolerance(1e-13, 1e-14)},
    array=waves,
    differentiable=(0, 1),
)
DONATES = replace(HONEST, name="donates", implementations={"jax": decorated}, donates=(0,))
ONE_COMPONENT = replace(
    HONEST,
    name="one_component",
    implementations={
        "jax": _by_rule(lambda jnp, jax, x, w, g: ((g * w * jnp.cos(x)).at[17].multiply(0.5), g * jnp.sin(x)))
    },
)
ZERO = replace(HONEST, name="zero", implementations={"jax": _by_rule(lambda jnp, jax, x, w, g: (0 * x, 0 * w))})
ONE_OF_TWO = replace(
    HONEST, name="one_of_two", implementations={"jax": _by_rule(lambda jnp, jax, x, w, g: (g * w * jnp.cos(x), 0 * w))}
)
FLAT = replace(
    HONEST,
    name="flat",
    implementations={
        # Right as a gradient, and constant for whoever differentiates once more.
        "jax": _by_rule(lambda jnp, jax, x, w, g: (g * w * jax.lax.stop_gradient(jnp.cos(x)), g * jnp.sin(x)))
    },
)


def square(xp, x):
    """Return x * x: its Hessian-vector product is 2 v, and x is not read for it."""
    return x * x


SQUARE = replace(
    HONEST,
    name="square",
    summary="x * x",
    inputs=lambda rng, dtype, n: (rng.standard_normal(n).astype(dtype),),
    array=square,
    differentiable=(0,),
)

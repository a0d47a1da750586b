# SPDX-License-Identifier: Apache-2.0
"""Variational inference with pyro, which is imported before torch: the example of its introduction to SVI."""
import pyro
import pyro.distributions as dist
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam
import torch
from torch.distributions import constraints

data = torch.tensor([1.0] * 6 + [0.0] * 4)


def model(data):
    fairness = pyro.sample("latent_fairness", dist.Beta(torch.tensor(10.0), torch.tensor(10.0)))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Bernoulli(fairness), obs=data)


def guide(data):
    alpha = pyro.param("alpha_q", torch.tensor(15.0), constraint=constraints.positive)
    beta = pyro.param("beta_q", torch.tensor(15.0), constraint=constraints.positive)
    pyro.sample("latent_fairness", dist.Beta(alpha, beta))


pyro.set_rng_seed(3)
svi = SVI(model, guide, Adam({"lr": 0.0005, "betas": (0.90, 0.999)}), loss=Trace_ELBO())
losses = [svi.step(data) for _ in range(50)]
print("result", losses[-1].hex(), pyro.param("alpha_q").item().hex(), pyro.param("beta_q").item().hex())

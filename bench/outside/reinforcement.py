# SPDX-License-Identifier: Apache-2.0
"""PPO of stable-baselines3 on CartPole, the first example of its documentation."""
import gymnasium as gym

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=3), n_steps=64, batch_size=32, n_epochs=2, seed=3, device="cpu")
model.learn(total_timesteps=256)
observation, _ = gym.make("CartPole-v1").reset(seed=3)
print("result", model.predict(observation, deterministic=True)[0],
      sum(p.double().sum().item() for p in model.policy.parameters()).hex())

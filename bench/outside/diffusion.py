# SPDX-License-Identifier: Apache-2.0
"""A small UNet2DModel of diffusers learns to predict noise, then draws an image: its training tutorial."""
import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
import torch.nn.functional as F

torch.manual_seed(3)
model = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16),
                    norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                    up_block_types=("AttnUpBlock2D", "UpBlock2D"))
scheduler = DDPMScheduler(num_train_timesteps=50)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rates = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=6)
for step in range(6):
    images = torch.randn(4, 1, 8, 8).clamp(-1, 1)
    noise, times = torch.randn_like(images), torch.randint(0, 50, (4,))
    loss = F.mse_loss(model(scheduler.add_noise(images, noise, times), times, return_dict=False)[0], noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    rates.step()
    optimizer.zero_grad()
pipeline = DDPMPipeline(unet=model, scheduler=scheduler)
pipeline.set_progress_bar_config(disable=True)
image = pipeline(batch_size=1, generator=torch.Generator().manual_seed(0), num_inference_steps=4, output_type="np").images
print("result", loss.item().hex(), float(image.astype("float64").sum()).hex())

# SPDX-License-Identifier: Apache-2.0
"""LoRA of peft, as its quick tour imports it: `peft_lora.py [resume]`."""
import os
import sys

from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, set_seed
import torch

set_seed(3)
model, first = AutoModelForCausalLM.from_pretrained("model"), 0
if sys.argv[1:]:
    model, first = PeftModel.from_pretrained(model, "adapter", is_trainable=True), 4
else:
    model = get_peft_model(model, LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, lora_alpha=8, lora_dropout=0.1))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
if sys.argv[1:]:
    state = torch.load("adapter/state.pt")
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
model.train()
for step in range(first, 8):
    words = torch.randint(0, 60, (4, 12), generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    if step == 3 and not os.path.exists("adapter"):
        model.save_pretrained("adapter")
        torch.save({"optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}, "adapter/state.pt")
print("result", sum(p.double().sum().item() for p in model.parameters()).hex())

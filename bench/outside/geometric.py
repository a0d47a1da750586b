# SPDX-License-Identifier: Apache-2.0
"""Two graph convolutions of torch_geometric on the karate club, from its introduction by example."""
import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCNConv


class GCN(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 16), GCNConv(16, classes)

    def forward(self, data):
        x = F.dropout(F.relu(self.conv1(data.x, data.edge_index)), training=self.training)
        return F.log_softmax(self.conv2(x, data.edge_index), dim=1)


seed_everything(3)
dataset = KarateClub()
data = dataset[0]
model = GCN(dataset.num_node_features, dataset.num_classes)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
model.train()
for epoch in range(20):
    optimizer.zero_grad()
    loss = F.nll_loss(model(data)[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
print("result", loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())

# SPDX-License-Identifier: Apache-2.0
"""A network as a classifier of scikit-learn: skorch, in the order of its README."""
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_predict
from torch import nn
from skorch import NeuralNetClassifier
import torch

torch.manual_seed(3)
X, y = make_classification(200, 20, n_informative=10, random_state=0)
X, y = X.astype(np.float32), y.astype(np.int64)
network = nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Dropout(0.5), nn.Linear(10, 2), nn.Softmax(dim=-1))
net = NeuralNetClassifier(network, max_epochs=3, lr=0.1, iterator_train__shuffle=True, verbose=0)
predicted = cross_val_predict(net, X, y, cv=2, method="predict_proba")
print("result", float(predicted.astype("float64").sum()).hex(), float(predicted[:, 1].astype("float64").sum()).hex())

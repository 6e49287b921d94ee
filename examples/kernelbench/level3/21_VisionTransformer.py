import torch
from torch import nn


class Model(nn.Module):
    """Patches of an image as tokens of the library's transformer encoder."""

    def __init__(self, size, patch, features, depth, heads, hidden, classes):
        super().__init__()
        patches = (size // patch) ** 2
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, features)
        self.class_token = nn.Parameter(torch.randn(1, 1, features))
        self.places = nn.Parameter(torch.randn(1, patches + 1, features))
        layer = nn.TransformerEncoderLayer(features, heads, hidden, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=depth, enable_nested_tensor=False)
        self.head = nn.Sequential(
            nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, classes)
        )

    def forward(self, image):
        p = self.patch
        x = image.unfold(2, p, p).unfold(3, p, p)
        x = x.permute(0, 2, 3, 1, 4, 5).reshape(image.shape[0], -1, 3 * p * p)
        x = self.embed(x)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1) + self.places
        return self.head(self.encoder(x)[:, 0])


batch, size, patch, features, depth, heads, hidden, classes = 2, 48, 8, 96, 3, 4, 192, 10


def get_inputs():
    return [torch.rand(batch, 3, size, size)]


def get_init_inputs():
    return [size, patch, features, depth, heads, hidden, classes]

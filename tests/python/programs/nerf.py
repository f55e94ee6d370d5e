"""A radiance field: positions encoded by waves, rays through a camera, volumes rendered."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise


def positional_encoding(tensor, num_encoding_functions=2, include_input=True):
    encoding = [tensor] if include_input else []
    frequency_bands = 2.0 ** torch.linspace(0.0, num_encoding_functions - 1, num_encoding_functions, dtype=tensor.dtype, device=tensor.device)
    for freq in frequency_bands:
        for func in [torch.sin, torch.cos]:
            encoding.append(func(tensor * freq))
    return torch.cat(encoding, dim=-1)


def get_ray_bundle(height, width, focal_length, tform_cam2world):
    ii, jj = torch.meshgrid(
        torch.arange(width, dtype=tform_cam2world.dtype), torch.arange(height, dtype=tform_cam2world.dtype), indexing="xy"
    )  # fmt: skip
    directions = torch.stack([(ii - width * 0.5) / focal_length, -(jj - height * 0.5) / focal_length, -torch.ones_like(ii)], dim=-1)
    ray_directions = torch.sum(directions[..., None, :] * tform_cam2world[:3, :3], dim=-1)
    ray_origins = tform_cam2world[:3, -1].expand(ray_directions.shape)
    return ray_origins, ray_directions


def cumprod_exclusive(tensor):
    cumprod = torch.cumprod(tensor, -1)
    cumprod = torch.roll(cumprod, 1, -1)
    cumprod[..., 0] = 1.0
    return cumprod


def render_volume_density(radiance_field, ray_origins, depth_values):
    sigma_a = F.relu(radiance_field[..., 3])
    rgb = torch.sigmoid(radiance_field[..., :3])
    one_e_10 = torch.tensor([1e10], dtype=ray_origins.dtype, device=ray_origins.device)
    dists = torch.cat((depth_values[..., 1:] - depth_values[..., :-1], one_e_10.expand(depth_values[..., :1].shape)), dim=-1)
    alpha = 1.0 - torch.exp(-sigma_a * dists)
    weights = alpha * cumprod_exclusive(1.0 - alpha + 1e-10)
    rgb_map = (weights[..., None] * rgb).sum(dim=-2)
    depth_map = (weights * depth_values).sum(dim=-1)
    return rgb_map, depth_map, weights.sum(-1)


class VeryTinyNerfModel(torch.nn.Module):
    def __init__(self, filter_size=16, num_encoding_functions=2):
        super(VeryTinyNerfModel, self).__init__()
        self.layer1 = torch.nn.Linear(3 + 3 * 2 * num_encoding_functions, filter_size)
        self.layer2 = torch.nn.Linear(filter_size, filter_size)
        self.layer3 = torch.nn.Linear(filter_size, 4)
        self.relu = torch.nn.functional.relu

    def forward(self, x):
        x = self.relu(self.layer1(x))
        x = self.relu(self.layer2(x))
        return self.layer3(x)


def get_minibatches(inputs, chunksize=40):
    return [inputs[i : i + chunksize] for i in range(0, inputs.shape[0], chunksize)]


def run_one_iter(height, width, focal_length, pose, near, far, samples):
    ray_origins, ray_directions = get_ray_bundle(height, width, focal_length, pose)
    depth_values = torch.linspace(near, far, samples).to(ray_origins)
    depth_values = depth_values + torch.tensor(noise(height, width, samples)) * 0.01
    query_points = ray_origins[..., None, :] + ray_directions[..., None, :] * depth_values[..., :, None]
    flattened = query_points.reshape((-1, 3))
    predictions = [model(batch) for batch in get_minibatches(positional_encoding(flattened))]
    radiance_field = torch.reshape(torch.cat(predictions, dim=0), list(query_points.shape[:-1]) + [4])
    return render_volume_density(radiance_field, ray_origins, depth_values)


model = VeryTinyNerfModel()
fill(model)
pose = torch.eye(4)
pose[:3, -1] = torch.tensor([0.1, -0.2, 4.0])
target = torch.sigmoid(torch.tensor(noise(4, 5, 3)))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
losses = []
for i in range(3):
    rgb, depth, acc = run_one_iter(4, 5, 3.0, pose, 2.0, 6.0, 6)
    loss = torch.nn.functional.mse_loss(rgb, target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    psnr = -10.0 * torch.log10(loss)
    losses += [loss.item(), psnr.item(), depth.mean().item()]

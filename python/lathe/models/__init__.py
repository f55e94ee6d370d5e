"""Whole nets to read, train and load published files into, one file each. Text is written faster by lathe.llm."""

from lathe.models.bert import Bert
from lathe.models.clip import ClipText
from lathe.models.gpt2 import GPT2
from lathe.models.llama import Llama
from lathe.models.resnet import ResNet
from lathe.models.retinanet import RetinaNet
from lathe.models.unet import UNet
from lathe.models.vae import Vae

__all__ = ["GPT2", "Bert", "ClipText", "Llama", "ResNet", "RetinaNet", "UNet", "Vae"]

# SPDX-License-Identifier: MIT
"""The built-in nets without dropout, small enough for a test to take steps with."""
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'trainer',
                      'nets')

# Name, images, input. Those of ImageNet are cut to what every window still
# fits in, rows and columns unlike, so that none is taken for the other; and
# their dense layers to an eighth: most of the time went to files of weights.
# Where batchnorm has one number an image, two images make it a step function,
# and a few do not.
NETS = [
    ('lenet', 2, None),
    ('lenet5', 2, None),
    ('alexnet', 2, '3x99x131'),
    ('alexnet_bn', 8, '3x99x131'),
    ('alexnet_cifar', 4, None),
    ('alexnet_ungrouped', 2, '3x99x131'),
    ('googlenet', 2, '3x67x81'),
    ('resnet18', 4, '3x64x80'),
    ('resnet20', 4, None),
    ('resnet50', 4, '3x64x80'),
    ('vgg16', 2, '3x64x96'),
    ('vgg19', 2, '3x64x96'),
]


def net_text(name, size):
    with open(os.path.join(FOLDER, name + '.net'), encoding='utf-8') as file:
        text = re.sub(r'dropout \S+', 'dropout 0', file.read())
    if size:
        text = re.sub(r'input \S+', f'input {size}', text)
        text = text.replace('dense 4096', 'dense 512')
    return text

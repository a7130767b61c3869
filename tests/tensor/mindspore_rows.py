"""What is evaluated under MindSpore and framejit: expressions over Tensors, as text."""

from __future__ import annotations

import numpy as np

_random = np.random.default_rng(7)
_a = _random.normal(size=(3, 4)).astype(np.float32)
INPUTS = {
    "a": _a,
    "b": (_random.normal(size=(3, 4)) + 0.1).astype(np.float32),
    "p": (np.abs(_a) + 0.5).astype(np.float32),
    "u": np.tanh(_a).astype(np.float32),
    "v": _random.normal(size=4).astype(np.float32),
    "m": _random.normal(size=(4, 3)).astype(np.float32),
    "t": _random.normal(size=(2, 3, 4)).astype(np.float32),
    "image": _random.normal(size=(2, 3, 8, 8)).astype(np.float32),
    "i": _random.integers(-5, 6, (3, 4)).astype(np.int32),
    "j": _random.integers(1, 5, (3, 4)).astype(np.int32),
    "k": _random.integers(-5, 6, (3, 4)),
    "h": _a.astype(np.float16),
    "d": _random.normal(size=(3, 4)),
    "s": _random.integers(-5, 6, (3, 4)).astype(np.int8),
    "w": _random.integers(0, 9, (3, 4)).astype(np.uint8),
    "l": _a > 0,
    "c": _random.integers(0, 4, 3).astype(np.int32),
    "x": _random.normal(size=(5, 3, 4)).astype(np.float32),
    "h0": _random.normal(size=(4, 3, 6)).astype(np.float32),
    "lengths": np.int32([5, 2, 3]),
    "volume": _random.normal(size=(2, 3, 4, 5, 6)).astype(np.float32),
    "line": _random.normal(size=(2, 3, 8)).astype(np.float32),
    "closed": np.triu(np.ones((5, 5)), 1).astype(np.bool_),
    "places": np.arange(12).reshape(3, 4) * 7 % 4,
    "two": np.array([0, 1]),
    "padded": np.arange(5) >= np.array([[4], [5], [3]]),
}

_spd = _random.normal(size=(4, 4))
INPUTS["spd"] = (_spd @ _spd.T + 4 * np.eye(4)).astype(np.float32)

_DTYPES = "a i k h d s w l".split()
_BINARY = "add sub mul div floor_divide minimum maximum equal ne less le greater ge".split()
_UNARY = {
    "a": """abs neg sign square exp expm1 sin cos tan atan sinh cosh tanh asinh floor ceil trunc round relu relu6 sigmoid silu elu selu
            hardswish hardsigmoid softplus mish logsigmoid gelu erf erfc isnan isinf isfinite softsign reciprocal tanhshrink logical_not""",
    "p": "sqrt rsqrt log log2 log10 log1p digamma lgamma",
    "u": "asin acos atanh erfinv",
    "i": "abs neg sign square bitwise_not exp sqrt sin logical_not relu",
    "d": "abs exp log1p sin tanh sqrt floor",
    "h": "abs exp sin tanh relu sigmoid",
}

_RECURRENT = [
    *[f"{call}(filled(nn.{kind}(4, 6{options})), {inputs})" for kind in ("RNN", "LSTM", "GRU") for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients")
      for options, inputs in (("", "x"), (", 2, has_bias=False", "x"), (", bidirectional=True", "x"), (", 2, bidirectional=True", "x"), (", batch_first=True", "x"))],
    *[f"filled(nn.{kind}(4, 6{options}))(x, {state}, lengths)" for kind, state in (("RNN", "h0[:{}]"), ("GRU", "h0[:{}]"), ("LSTM", "(h0[:{0}], h0[:{0}] * 2)"))
      for options, state in (("", state.format(1)), (", 2, bidirectional=True", state.format(4)))],
    *[f"filled(nn.{kind}(4, 6{options}))({inputs})" for kind, options, inputs in (
        ("RNNCell", "", "x[0], h0[0]"), ("RNNCell", ", False, 'relu'", "x[0], h0[0]"), ("GRUCell", "", "x[0], h0[0]"), ("GRUCell", ", False", "x[0], h0[0]"), ("LSTMCell", "", "x[0], (h0[0], h0[1])"),
        ("RNN", ", nonlinearity='relu'", "x, h0[:1]"), ("LSTM", ", dropout=0.5, num_layers=2", "x"))],
    *[f"gradients(filled(nn.{kind}(4, 6)), x[0], h0[0])" for kind in ("RNNCell", "GRUCell")],
    *[f"names(nn.{layer})" for layer in ("RNN(4, 6)", "LSTM(4, 6, 2, bidirectional=True)", "GRU(4, 6, has_bias=False)", "RNNCell(4, 6)", "LSTMCell(4, 6, False)", "GRUCell(4, 6)")],
    *[f"nn.{wrong}" for wrong in ("RNN('a', 2)", "RNN(0, 2)", "LSTM(3, 2, dropout=1)", "LSTM(3, 2, dropout=1.0)", "GRU(3, 2, has_bias=1)", "RNN(3, 2, nonlinearity='x')", "RNNCell(3, 2, nonlinearity='x')", "RNNCell(3, 2, nonlinearity=1)", "GRUCell(3, 2.5)",
                                  "LSTM(3, 2, num_layers=0)", "RNNCell(4, 6)(x[0], 3)", "LSTMCell(4, 6)(x[0], h0[0])", "LSTM(4, 6)(x, h0[:1])", "GRU(4, 6)(x, seq_length=v)", "GRU(4, 6)(x, seq_length=lengths[:2])", "GRUCell(4, 6)(i, h0[0])")],
]
_TRANSFORMERS = [
    *[f"{call}(filled(nn.MultiheadAttention(4, 2{options})), {inputs})" for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients")
      for options, inputs in (("", "x, x * 2, x - 1"), (", has_bias=False", "x, x + 1, x * 2"), (", add_bias_kv=True, add_zero_attn=True", "x, x * 2, x + 1"), (", kdim=4, vdim=4, batch_first=True", "x, x * 2, x + 1"), (", kdim=3, vdim=2", "x, x[:, :, :3], x[:, :, :2]"), ("", "x[0], x[0], x[0]"))],
    *[f"filled(nn.MultiheadAttention(4, 2{options}))(x, x, x{masks})" for options in ("", ", add_bias_kv=True, add_zero_attn=True")
      for masks in (", attn_mask=closed", ", padded", ", padded, attn_mask=closed", ", need_weights=False", ", average_attn_weights=False", ", attn_mask=closed.astype(ms.float32)", ", attn_mask=ops.stack([closed] * 6)")],
    *[f"filled(nn.{layer})({inputs})" for layer, inputs in (
        ("TransformerEncoderLayer(4, 2, 8)", "x"), ("TransformerEncoderLayer(4, 2, 8, activation='gelu', norm_first=True)", "x, closed, padded"), ("TransformerEncoderLayer(4, 2, 8, batch_first=True)", "x"),
        ("TransformerDecoderLayer(4, 2, 8)", "x, x * 2, closed"), ("TransformerDecoderLayer(4, 2, 8, norm_first=True)", "x, x * 2, closed, closed, padded, padded"),
        ("TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, nn.LayerNorm((4,)))", "x"), ("TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2)", "x, x * 2"), ("Transformer(4, 2, 1, 2, 8)", "x, x * 2, closed, closed"))],
    "gradients(filled(nn.TransformerEncoderLayer(4, 2, 8)), x)", "gradients(filled(nn.TransformerDecoderLayer(4, 2, 8, norm_first=True)), x, x * 2)",
    *[f"names(nn.{layer})" for layer in ("MultiheadAttention(4, 2)", "MultiheadAttention(4, 2, kdim=3, add_bias_kv=True)", "TransformerEncoderLayer(4, 2, 8)", "TransformerDecoderLayer(4, 2, 8)", "TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)", "Transformer(4, 2, 1, 1, 8)")],
    *[f"nn.{wrong}" for wrong in ("MultiheadAttention(5, 2)", "TransformerEncoderLayer(4, 2, activation='x')", "TransformerEncoderLayer(4, 2, activation=3)", "TransformerEncoderLayer(4, 2, activation=nn.Tanh())", "MultiheadAttention(4, 2)(x, x[0], x[0])", "MultiheadAttention(4, 2)(x, x, x, attn_mask=closed[:3])",
                                  "MultiheadAttention(4, 2)(x, x, x, i)", "Transformer(4, 2, 1, 1, 8)(x[:, :, :3], x)", "Transformer(4, 2, 1, 1, 8)(x[:, :2], x)")],
]
_NORMALIZATIONS = [
    *[f"{call}(filled(nn.{layer}), {inputs})" for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients", "trained") for layer, inputs in (
        ("BatchNorm1d(3)", "line"), ("BatchNorm1d(4)", "a"), ("BatchNorm2d(3)", "image"), ("BatchNorm2d(3, momentum=0.5, eps=0.1)", "image"), ("BatchNorm2d(3, affine=False)", "image"), ("BatchNorm3d(3)", "volume"),
        ("BatchNorm2d(3, use_batch_statistics=True)", "image"), ("BatchNorm2d(3, use_batch_statistics=False)", "image"), ("GroupNorm(1, 3)", "image"), ("GroupNorm(3, 3, 0.1)", "line"), ("LayerNorm((4,))", "t"), ("LayerNorm((3, 4), 1, 1)", "t"), ("LayerNorm([3, 4], -1, 1, epsilon=0.1)", "t"))],
    *[f"names(nn.{layer})" for layer in ("BatchNorm2d(3)", "BatchNorm2d(3, affine=False)", "BatchNorm3d(3)", "GroupNorm(1, 3)", "GroupNorm(1, 3, affine=False)", "LayerNorm((3, 4))", "InstanceNorm2d(3)", "SyncBatchNorm(3)", "CellList([nn.BatchNorm2d(3), nn.PReLU()])", "SequentialCell(nn.Dense(2, 3), nn.BatchNorm1d(3))")],
    *[f"nn.{wrong}" for wrong in ("BatchNorm1d(3)(image)", "BatchNorm2d(3)(line)", "BatchNorm3d(3)(image)", "BatchNorm2d(0)", "BatchNorm2d('a')", "BatchNorm2d(3, momentum=2)", "BatchNorm2d(3, data_format='NHWC')", "BatchNorm2d(3, use_batch_statistics=1)", "GroupNorm(2, 3)", "GroupNorm(1, 3, 1)", "GroupNorm(1, 3, affine=1)",
                                  "GroupNorm(0, 3)", "LayerNorm(3)", "LayerNorm(())", "LayerNorm((3,))(a)", "InstanceNorm1d(3)(image)", "InstanceNorm2d(3)(line)", "InstanceNorm3d(3)(image)", "InstanceNorm2d(0)", "InstanceNorm2d(3, 1)", "InstanceNorm2d(3, momentum=2.0)", "InstanceNorm2d(3, affine=1)", "InstanceNorm2d(3, gamma_init=[1])",
                                  "SyncBatchNorm(3)(line)")],
    "ops.group_norm(image, 3)", "ops.group_norm(image, 1, v[:3], v[1:])", "ops.group_norm(line, 2)", "ops.reverse_sequence(x, lengths, 0, 1)", "ops.reverse_sequence(x, lengths[:2], 2, 1)",
]
_SHARES = "Tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])"
_METRICS = [
    *[f"(lambda p, y: measured(nn.{metric}, (p, y), (p[1:] * 2, y[1:]){words}))({_SHARES}, Tensor([1, 0, 2, 0]))"
      for words in ("", ", average=True") for metric in ("Precision()", "Recall()", "F1()", "Fbeta(2.0)", "Fbeta(0.5)", "Precision('classification')")],
    *[f"(lambda p, y: measured(nn.{metric}, (p, y), (p[1:], y[1:])))({_SHARES}, {label})"
      for metric in ("Accuracy()", "Top1CategoricalAccuracy()", "TopKCategoricalAccuracy(2)", "Precision()", "Recall()") for label in ("Tensor([1, 0, 2, 0])", "Tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])")],
    *[f"(lambda p, y: measured(nn.{metric}('multilabel'), (p, y), (p[1:], y[1:]){words}))(Tensor([[1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 1, 1]]), Tensor([[1, 1, 1], [0, 0, 1], [0, 1, 0], [0, 1, 1]]))"
      for metric in ("Accuracy", "Precision", "Recall") for words in ("", ", average=True") if words == "" or metric != "Accuracy"],
    *[f"measured(nn.{metric}, (a, b), (b * 2, a))" for metric in ("MAE()", "MSE()")], "measured(nn.MAE(), (v, v * 2))", "measured(nn.MSE(), (t, t + 1))",
    *[f"(lambda p, y: measured(nn.Perplexity({ignored}), (p, y), (p[1:], y[1:])))({_SHARES}, Tensor([1, 0, 2, 0]))" for ignored in ("", "0", "7")],
    *[f"(lambda p, y: measured(nn.ConfusionMatrix(3{words}), (p, y), (p[1:], y[1:])))({_SHARES}, Tensor([1, 0, 2, 0]))" for words in ("", ", 'target'", ", 'prediction'", ", 'all'")],
    "measured(nn.ConfusionMatrix(2, 'no_norm', 0.4), (Tensor([0.2, 0.5, 0.45]), Tensor([0, 1, 0])))", "measured(nn.Loss(), (s,), (s * 3,))", "[nn.get_metric_fn(n) for n in ('x',)]",
    *[f"nn.{wrong}" for wrong in ("Precision('x')", "Fbeta(0.0)", "TopKCategoricalAccuracy(0)", "TopKCategoricalAccuracy(1.5)", "Perplexity(1.5)", "ConfusionMatrix('a')", "ConfusionMatrix(3, 'x')", "ConfusionMatrix(3, 'all', 1)",
                                  "Precision().eval()", "MSE().eval()", "Perplexity().eval()", "ConfusionMatrix(2).eval()", "TopKCategoricalAccuracy(2).eval()", "Precision().update(a)", "MAE().update(a)", "Recall().update(v, v)")],
]
_OPTIMIZERS = [
    *[f"steps(nn.{name}([weight(a)]{options}), b, a * 0.5, -b)" for name, options in (
        ("SGD", ""), ("SGD", ", 0.2, 0.9, 0.5, 0.1"), ("SGD", ", momentum=0.9, nesterov=True, loss_scale=2.0"), ("Momentum", ", 0.1, 0.9"), ("Momentum", ", 0.1, 0.9, 0.01, 4.0, True"), ("Adam", ""), ("Adam", ", 0.1, weight_decay=0.1"),
        ("Adam", ", 0.1, use_nesterov=True, loss_scale=2.0"), ("Adam", ", 0.1, use_amsgrad=True"), ("AdamWeightDecay", ", 0.1, weight_decay=0.1"), ("RMSProp", ""), ("RMSProp", ", 0.1, 0.8, 0.5, centered=True, epsilon=1e-3"), ("Adagrad", ""), ("Adagrad", ", 0.5, 0.1, weight_decay=0.1"),
        ("Adagrad", ", update_slots=False"), ("AdaMax", ", 0.1"), ("LazyAdam", ", 0.1"), ("AdamOffload", ", 0.1"), ("Adadelta", ""), ("Adadelta", ", 0.5, 0.8, weight_decay=0.1"), ("Rprop", ""), ("Rprop", ", 0.5, (0.3, 1.5), (1e-3, 0.6)"), ("ASGD", ""), ("ASGD", ", 0.2, 0.01, 0.5, 1.0"),
        ("FTRL", ""), ("FTRL", ", l1=0.1, l2=0.1, learning_rate=0.5, weight_decay=0.1"), ("ProximalAdagrad", ""), ("ProximalAdagrad", ", 0.1, 0.5, 0.1, 0.1"), ("AdaFactor", ""), ("AdaFactor", ", 0.1, relative_step=False, scale_parameter=False, weight_decay=0.1"),
        ("AdaFactor", ", warmup_init=True, beta1=0.0"), ("SGD", ", nn.ExponentialDecayLR(0.1, 0.5, 2)"), ("Momentum", ", [0.1, 0.2, 0.3], 0.9"), ("Adam", ", Tensor([0.1, 0.2, 0.3])"), ("SGD", ", Tensor(0.5)"), ("Momentum", ", 0.1, 0.9, weight_decay=nn.CosineDecayLR(0.01, 0.5, 3)"))],
    "steps(nn.AdaFactor([weight(v)]), v * 2, v)", "steps(nn.Adam([weight(a, 'bn.gamma')], weight_decay=0.5), a)",
    *[f"(lambda first, second: steps(nn.{name}, (a, b), (b, v)))(weight(a, 'first'), weight(b, 'second'))".replace("(b, v)", "(b, a)") for name in (
        "SGD([{'params': [first], 'lr': 0.5}, {'params': [second], 'weight_decay': 0.1}], 0.1)", "Momentum([{'params': [first], 'lr': nn.ExponentialDecayLR(0.1, 0.5, 2)}, {'params': [second]}], 0.1, 0.9)",
        "Adam([{'params': [first], 'grad_centralization': True}, {'params': [second], 'weight_decay': 0.1, 'lr': 0.3}, {'order_params': [second, first]}], 0.1)", "AdamWeightDecay([{'params': [first], 'weight_decay': 0.1}, {'params': [second], 'lr': 0.2}])")],
    *[f"[p.name for p in nn.{name}.get_parameters()]" for name in ("Adam([weight(a)])", "AdaMax([weight(a)])", "Adadelta([weight(a)])", "FTRL([weight(a)])", "ASGD([weight(a)])", "Rprop([weight(a)])", "RMSProp([weight(a)], centered=True)", "RMSProp([weight(a)])", "Adagrad([weight(a)])", "AdamWeightDecay([weight(a)])")],
    *[f"nn.{wrong}" for wrong in ("SGD([])", "SGD(None)", "SGD(3)", "SGD([3])", "SGD([weight(a)], -1.0)", "SGD([weight(a)], weight_decay=-1.0)", "SGD([weight(a)], weight_decay='x')", "SGD([weight(a)], loss_scale=0.0)", "SGD([weight(a)], momentum=-1.0)", "SGD([weight(a)], nesterov=True)",
                                  "Momentum([weight(a)], 0.1, -1.0)", "Momentum([weight(a)], 0.1, 0.9, use_nesterov=1)", "Adam([weight(a)], beta1=2.0)", "Adam([weight(a)], beta1=1)", "Adam([weight(a)], eps=0.0)", "AdamWeightDecay([weight(a)], beta2=1.5)", "RMSProp([weight(a)], decay=-0.5)", "RMSProp([weight(a)], decay=1)", "RMSProp([weight(a)], epsilon=0.0)",
                                  "Adagrad([weight(a)], accum=-1.0)", "Adagrad([weight(a)], 1)", "AdaMax([weight(a)], beta1=0.0)", "Adadelta([weight(a)], rho=2.0)", "Rprop([weight(a)], etas=[1, 2])", "Rprop([weight(a)], etas=(2.0, 1.2))", "Rprop([weight(a)], step_sizes=(2.0, 1.0))", "ASGD([weight(a)], lambd=1)", "Lamb([weight(a)], 0.1, 2.0)",
                                  "FTRL([weight(a)], lr_power=0.5)", "FTRL([weight(a)], l1=-1.0)", "ProximalAdagrad([weight(a)], l1=-1.0)", "AdaFactor([weight(a)], 0.1)", "AdaFactor([weight(a)], eps=(1.0,))", "SGD([{'params': [weight(a)], 'nothing': 1}])", "SGD([{'params': []}])", "SGD([{'params': [3]}])", "SGD([{'params': [weight(a)]}, weight(b)])",
                                  "SGD([{'params': [weight(a)], 'weight_decay': -1.0}])", "SGD([{'params': [weight(a)], 'grad_centralization': 1}])")],
]
_SPACE = [
    *[f"{call}(filled(nn.{layer}), {inputs})" for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients") for layer, inputs in (
        *[(f"Conv{n}d(3, 2, 3{options})", x) for n, x in ((1, "line"), (2, "image"), (3, "volume")) for options in ("", ", 2, 'valid', has_bias=True", ", 1, 'pad', 1")],
        ("Conv2d(3, 6, 3, group=3, dilation=2)", "image"), ("Conv2d(3, 2, (2, 3), (2, 1), 'pad', (1, 0, 2, 1))", "image"), ("Conv3d(3, 3, 2, 2, 'pad', (1, 0, 0, 1, 1, 1), group=3, has_bias=True)", "volume"),
        *[(f"Conv{n}dTranspose(3, 2, 3{options})", x) for n, x in ((1, "line"), (2, "image"), (3, "volume")) for options in ("", ", 2", ", 2, 'valid', has_bias=True", ", 4, 'same'", ", 2, 'pad', 1")],
        ("Conv2dTranspose(3, 3, 3, 2, 'pad', 1, group=3, has_bias=True)", "image"), ("Conv2dTranspose(3, 2, (2, 3), 2, 'pad', (1, 0, 2, 1), 1)", "image"), ("Conv2dTranspose(3, 2, 3, 2, 'pad', 1, (0, 1), has_bias=True)", "image"), ("Conv2dTranspose(3, 2, 3, 2, 'pad', 1, dilation=2)", "image"),
        ("Conv3dTranspose(3, 2, 3, 2, 'pad', 1, output_padding=1)", "volume"))],
    *[f"names(nn.{layer})" for layer in ("Conv1d(3, 2, 4, has_bias=True)", "Conv2d(4, 2, (3, 1), group=2)", "Conv3d(3, 2, 2)", "Conv1dTranspose(3, 2, 4)", "Conv2dTranspose(4, 6, 3, group=2)", "Conv3dTranspose(3, 2, 2, has_bias=True)")],
    *[f"nn.{wrong}" for wrong in ("Conv2d(0, 2, 3)", "Conv2d('a', 2, 3)", "Conv2d(3, 2, 0)", "Conv2d(3, 2, 3, 0)", "Conv2d(3, 2, 3, pad_mode='x')", "Conv2d(3, 2, 3, padding=-1)", "Conv2d(3, 2, 3, padding='a')", "Conv2d(3, 2, 3, group=2)", "Conv2d(3, 2, 3, has_bias=1)", "Conv2d(3, 2, 3, data_format='NHWC')", "Conv2d(3, 2, 3, dilation=0)",
                                  "Conv2d(4, 2, 3)(image)", "Conv2d(3, 2, 3)(a)", "Conv1d(3, 2, (3,))", "Conv1d(3, 2, 3, 1.5)", "Conv1d(3, 2, 3)(a)", "Conv3d(3, 2, 3, padding=(1, 1))", "Conv3d(3, 2, 3)(image)", "Conv2dTranspose(3, 2, 3, padding=(1, 1))", "Conv2dTranspose(3, 2, 3, 2, output_padding=1)(image)", "Conv2dTranspose(3, 2, 3, 2, 'pad', output_padding=2)(image)",
                                  "Conv2dTranspose(3, 2, 3, output_padding='a')", "Conv1dTranspose(3, 2, 3)(a)")],
    *[f"{call}(nn.{layer}, {inputs})" for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients") for n, inputs in ((1, "line"), (2, "image"), (3, "volume")) for layer in (
        *[f"{kind}Pool{n}d({options})" for kind in ("Max", "Avg") for options in ("", "2, 2", "3, 2, 'same'", "2, 1, 'same'", "3, 2, 'pad', 1", "3, 2, 'pad', 1, ceil_mode=True")], f"AvgPool{n}d(3, 2, 'pad', 1, count_include_pad=False)",
        f"AdaptiveAvgPool{n}d(2)", f"AdaptiveMaxPool{n}d(2)", f"ConstantPad{n}d(1, 0.5)", f"ReflectionPad{n}d(1)", f"ReplicationPad{n}d(2)")],
    *[f"nn.{layer}" for layer in ("MaxPool1d(2, 2, 'pad', return_indices=True)(line)", "MaxPool2d(3, 2, 'pad', 1, return_indices=True)(image)", "MaxPool2d(2, 2, 'pad', 0, 2)(image)", "MaxPool2d((3, 2), (1, 2), 'pad', (1, 0), (1, 2), ceil_mode=True)(image)", "MaxPool2d(2, 2)(image[0])", "MaxPool3d(2, 2, 'pad', 1, return_indices=True)(volume)",
                                  "MaxPool3d((2, 1, 3), 2)(volume[0])", "AvgPool2d((3, 2), (1, 2), 'pad', (1, 0))(image)", "AvgPool2d(2, 2, 'pad', divisor_override=3)(image)", "AvgPool2d(2, 2)(image[0])", "AvgPool3d(2, 2, 'pad', 1, divisor_override=3)(volume)", "AvgPool1d(4, 6)(line)", "AvgPool1d(8, 1)(line)",
                                  "AdaptiveAvgPool2d((3, None))(image)", "AdaptiveAvgPool2d((3, 5))(image)", "AdaptiveAvgPool3d((1, 2, 4))(volume)", "AdaptiveMaxPool2d((3, 5), True)(image)", "AdaptiveMaxPool2d((None, 3))(image[0])", "AdaptiveMaxPool3d((1, 2, 4), True)(volume)", "LPPool1d(2.0, 2)(ops.abs(line))", "LPPool2d(3.0, 2, 1)(ops.abs(image))",
                                  "MaxUnpool1d(2)(*nn.MaxPool1d(2, 2, 'pad', return_indices=True)(line))", "MaxUnpool2d(2)(*nn.MaxPool2d(2, 2, 'pad', return_indices=True)(image))", "MaxUnpool2d(2)(*nn.MaxPool2d(2, 2, 'pad', return_indices=True)(image), (2, 3, 9, 9))", "MaxUnpool3d(2)(*nn.MaxPool3d(2, 2, 'pad', return_indices=True)(volume[:, :, :, :4]))")],
    *[f"nn.{wrong}" for wrong in ("MaxPool2d(0)", "MaxPool2d('a')", "MaxPool2d(2, 0)", "MaxPool2d(2, 2, 'x')", "MaxPool2d(2, 2, 3)", "MaxPool2d(2, 2, 'valid', 1)", "MaxPool2d(2, 2, 'same', return_indices=True)", "MaxPool2d(2, 2, 'pad', (1, 1, 1))", "MaxPool2d(2, 2, 'pad', -1)", "MaxPool1d((2,))", "MaxPool2d(2, 2, data_format='NHWC')", "MaxPool2d(2, 2)(a)",
                                  "AvgPool2d(0)", "AvgPool2d(2, 2, 'x')", "AvgPool2d(2, 2, 'pad', divisor_override=0)", "AvgPool1d(2, 2)(image)", "AdaptiveAvgPool1d(3)(line)", "AdaptiveAvgPool1d(0)", "AdaptiveAvgPool1d('a')", "AdaptiveMaxPool1d(2)(image)", "AdaptiveAvgPool2d(3)(a)", "MaxUnpool2d(2)(image, image)", "ConstantPad2d('a', 1)", "ConstantPad2d((1, 1, 1), 1)",
                                  "ConstantPad1d((1, 1, 1, 1), 1)", "ConstantPad1d(1, 'a')", "ReflectionPad1d(-1)", "ReflectionPad2d((1, 1.5))", "ReflectionPad2d(8)(image)", "ReflectionPad2d((1,))", "ZeroPad2d([1, 1])")],
    *[f"nn.{layer}" for layer in ("ZeroPad2d((1, 2, 0, 3))(image)", "ZeroPad2d(-1)(image)", "ConstantPad2d((1, -1, 2, 0), 3)(image)", "ReflectionPad2d((1, 2, 0, 3))(image)", "ReplicationPad2d((1, 2, 0, 3))(image[0])", "ReplicationPad3d((1, 2, 0, 3, 1, 1))(volume)", "Pad(((1, 2), (0, 1)))(a)", "Pad(((1, 2), (0, 1)), 'REFLECT')(a)", "Pad(((1, 2), (0, 1)), 'SYMMETRIC')(a)",
                                  "PixelShuffle(1)(image)", "PixelShuffle(2)(ops.cat((volume, volume), 1)[:, :4, 0])", "PixelUnshuffle(2)(image)", "PixelUnshuffle(2)(volume[:, :, :, :4])", "ChannelShuffle(3)(image)", "ChannelShuffle(2)(ops.cat((image, image), 1))", "LRN()(image)", "LRN(1, 2.0, 0.5, 0.75)(image)", "CentralCrop(0.5)(image)", "CentralCrop(0.3)(image[0])", "ImageGradients()(image)")],
    *[f"ops.pad({given})" for given in ("a, (1, 2, 0, 1)", "a, (-1, 2)", "image, (1, 2, 0, 1), 'reflect'", "image, (1, 2, 0, 1), 'replicate'", "line, (1, 2), 'circular'", "image, (1, 0, 2, 1), 'circular'", "a, (1, 1), 'constant', 3.5", "a, (1,)", "a, (1, 1), 'x'", "image, (1, 1, 1, 1), 'reflect', 1.0")],
    *[f"ops.{call}" for call in ("unfold(image, 2)", "unfold(image, (2, 3), 2, 1, 2)", "fold(ops.unfold(image, 2), Tensor(np.int32([8, 8])), 2)", "fold(ops.unfold(image, 3, 1, 1, 2), Tensor(np.int32([8, 8])), 3, 1, 1, 2)", "pixel_shuffle(image[:, :2], 2)", "pixel_shuffle(image, 0)", "pixel_shuffle(image, 1.5)", "pixel_unshuffle(image, 3)", "channel_shuffle(image, 2)", "max_pool3d(volume, 2)",
                                 "max_pool3d(volume, 3, 2, 1, return_indices=True)", "max_pool2d(image, 3, 2, 1, return_indices=True)", "max_pool2d(image, 3, 2, 1, ceil_mode=True)", "avg_pool1d(line, 2, 2)", "avg_pool2d(image, 3, 2, 1, True, False)", "avg_pool3d(volume, 2, 2)", "adaptive_avg_pool1d(line, 4)", "adaptive_avg_pool2d(image, 3)", "adaptive_avg_pool3d(volume, 3)", "adaptive_max_pool1d(line, 4)",
                                 "adaptive_max_pool2d(image, 3, True)", "adaptive_max_pool3d(volume, 3)", "lp_pool1d(ops.abs(line), 2.0, 3, 1)", "lp_pool2d(ops.abs(image), 2.0, 3, 1, True)", "lrn(image, 2)")],
    *[f"ops.interpolate({given})" for given in (
        *[f"{x}, {size}, mode='{mode}'{more}" for x, sizes, modes in (("line", ("(5,)", "12", "(8,)"), ("nearest", "linear", "area", "nearest-exact")), ("image", ("(5, 12)", "4", "(16, 3)"), ("nearest", "bilinear", "bicubic", "area", "nearest-exact")), ("volume", ("(5, 3, 9)", "2"), ("nearest", "trilinear", "area")))
          for mode in modes for size in sizes for more in (("", ", align_corners=True") if "linear" in mode or mode == "bicubic" else ("",))],
        "image, scale_factor=1.5, recompute_scale_factor=True", "image, scale_factor=(0.5, 2.0), mode='area'", "volume, scale_factor=1.5", "volume, scale_factor=1.5, mode='trilinear'", "volume, scale_factor=(0.5, 2.0, 1.3), mode='trilinear', align_corners=True", "image, scale_factor=2.0, mode='bilinear', recompute_scale_factor=True",
        "image", "image, (4, 4), 2.0", "image, (4, 4, 4)", "image, 4, mode='linear'", "image, 4, mode='x'", "image, 4, align_corners=True", "image, scale_factor=2.0", "image, 0", "image, 'a'", "image, 4, mode='bilinear', align_corners=1", "3, 4", "image, (4, 4), recompute_scale_factor=True", "line, 4, mode='bilinear'")],
    "nn.Upsample((4, 4))(image)", "nn.Upsample(scale_factor=2.0, mode='bilinear', recompute_scale_factor=True)(image)", "ops.upsample(image, 12, mode='bicubic')", *[f"gradients(nn.Upsample({given}), {x})" for given, x in (("5", "line"), ("(5, 12)", "image"), ("(5, 12), mode='bilinear'", "image"), ("(5, 12), mode='bicubic'", "image"), ("4, mode='trilinear'", "volume"))],
]
_LOSSES = [
    *[f"{call}(nn.{layer}, {inputs})" for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients") for layer, inputs in (
        *[(f"{name}({more}reduction='{reduction}')", inputs) for reduction in ("mean", "sum", "none") for name, more, inputs in (
            ("MAELoss", "", "a, b"), ("SoftMarginLoss", "", "a, b"), ("MultiLabelSoftMarginLoss", "", "a, u"), ("CosineEmbeddingLoss", "0.1, ", "a, b, Tensor(np.float32([1, -1, 1]))"), ("MarginRankingLoss", "0.1, ", "a, b, ops.sign(a)"), ("HingeEmbeddingLoss", "", "a, ops.sign(b)"),
            ("GaussianNLLLoss", "full=True, ", "a, b, p"), ("PoissonNLLLoss", "full=True, ", "a, p"), ("PoissonNLLLoss", "False, ", "p, b"), ("TripletMarginWithDistanceLoss", "swap=True, ", "a, b, u"))],
        ("RMSELoss()", "a, b"), ("DiceLoss()", "a, b"), ("MultiClassDiceLoss()", "a, p"), ("MultiClassDiceLoss(activation='sigmoid', ignore_indiex=1)", "a, p"), ("BiDense(4, 3, 2, weight_init='ones', bias_init='ones')", "a, m.T"))],
    *[f"nn.{call}" for call in ("MultiMarginLoss()(a, c.astype(ms.int64))", "MultiMarginLoss(2, 0.5, 'sum', v)(a, c.astype(ms.int64))", "MultiMarginLoss(reduction='none')(a, c.astype(ms.int64))", "FocalLoss()(a, c[:, None])", "FocalLoss(v, 1.5, 'none')(a, c[:, None])", "FocalLoss(gamma=1.0)(image, ops.softmax(image, 1))", "SoftmaxCrossEntropyWithLogits(reduction='sum')(a, ops.softmax(b))",
                                "MultiLabelSoftMarginLoss(p)(a, u)", "Linear(4, 2, weight_init='ones', bias_init='ones')(a)", "GLU()(a)", "FastGelu()(a)", "Softmax2d()(image)", "DiGamma()(p)", "LGamma()(a)", "ReduceLogSumExp(1)(a)", "Dropout1d()(line)", "Dropout2d(0.2)(image)", "Dropout3d()(volume)", "Identity(3, a=4)(a)", "Threshold(0.1, 2.0)(a)")],
    *[f"nn.{wrong}" for wrong in ("MAELoss('x')", "MSELoss('x')", "CosineEmbeddingLoss(2.0)", "CosineEmbeddingLoss(1)", "GaussianNLLLoss(eps=-1.0)", "GaussianNLLLoss(full=1)", "HingeEmbeddingLoss('x')", "HingeEmbeddingLoss(1.0, 'x')", "MultiMarginLoss(3)", "MultiMarginLoss(margin='x')", "FocalLoss(gamma=1)", "FocalLoss(3)", "FocalLoss()(a, c)", "DiceLoss(0.0)", "DiceLoss()(a, m)",
                                  "MultiClassDiceLoss(activation='x')", "MultiClassDiceLoss(v)", "MultiClassDiceLoss(3)", "TripletMarginWithDistanceLoss(margin=1)", "SoftmaxCrossEntropyWithLogits(1)", "SoftmaxCrossEntropyWithLogits(reduction='x')", "BCELoss(reduction='x')", "Dropout1d(1)", "Dropout2d(2.0)", "Dropout3d('x')", "Dropout(2.0)", "Dropout(p='x')", "Linear(0, 1)", "Linear(1, 2, 3)",
                                  "BiDense(0, 1, 1)", "Embedding(0, 1)", "Embedding(5, 2, padding_idx=7)", "Embedding(5, 2, use_one_hot=1)", "Softmax2d()(a)", "PoissonNLLLoss()(3, a)", "MultiMarginLoss()(3, c)")],
    *[f"ops.{call}" for call in ("margin_ranking_loss(a, b, ops.sign(a))", "margin_ranking_loss(a, b, ops.sign(a), 1)", "cosine_embedding_loss(a, b, Tensor(np.float32([1, -1, 1])), 0.2, 'none')", "cosine_embedding_loss(a, b, Tensor(np.float32([1, -1, 1])), 2.0)", "hinge_embedding_loss(a, ops.sign(b))", "soft_margin_loss(a, b)", "multilabel_soft_margin_loss(a, u)", "multi_margin_loss(a, c.astype(ms.int64))",
                                 "multi_margin_loss(a, c.astype(ms.int64), margin=0.5)", "gaussian_nll_loss(a, b, p)", "gaussian_nll_loss(a, b, p, eps=-1.0)", "lgamma(i)", "digamma(i)", "digamma(a)", "lgamma(d)", "digamma(d)", "fast_gelu(a)")],
]
# The matrix has zeros. What MindSpore computes by another package, which is not there, is left out.
_SPARSE = [
    *[call.replace("csr(z)", "csr(np.maximum(a.asnumpy(), 0))").replace("coo(z)", "coo(np.maximum(a.asnumpy(), 0))") for call in (
        "csr(z)", "coo(z)", "csr(z).shape", "csr(z).size", "csr(z).ndim", "csr(z).itemsize", "csr(z).dtype", "csr(z).to_dense()", "csr(z) + csr(z)", "csr(z) - csr(z)", "csr(z) * 2", "csr(z) / 2", "csr(z).abs()", "-csr(z)", "csr(z).astype(ms.float64)", "csr(z).add(csr(z), Tensor(1.0), Tensor(2.0))", "csr(z) * csr(z)", "csr(z) + a", "csr(z).T", "csr(z) @ m",
        "csr(z).mv(v)", "csr(z).sum(0)", "coo(z).to_dense()", "coo(z) + a", "coo(z) - a", "coo(z) * a", "coo(z) / p", "a + coo(z)", "coo(z) + coo(z)", "coo(z).coalesce()", "coo(z).abs()", "-coo(z)", "coo(z).astype(ms.int32)", "coo(z).add(coo(z), Tensor(3.0))", "coo(z) + v", "ops.coo_relu(coo(z))", "ops.coo_concat([coo(z), coo(z)], 0)",
        "ops.dense_to_sparse_coo(ops.relu(a))", "ops.dense_to_sparse_csr(ops.relu(a))", "ms.COOTensor(c, v, (3, 4))", "ms.COOTensor(i, v, (3, 4))", "ms.COOTensor(1, v, (3, 4))", "ms.COOTensor(i[:, :2], v[:3], [3, 4])", "ms.COOTensor(i[:, :2], v[:3], (3, 4.0))", "ms.COOTensor(i[:, :2], v, (3, 4))", "ms.COOTensor(a[:, :2], v[:3], (3, 4))", "ms.COOTensor(i[:, :2], v[:3], (3,))", "ms.COOTensor(i[:, :2], v[:3], (1, 1))",
        "ms.CSRTensor(1, c, v, (3, 4))", "ms.CSRTensor(c, c, v, (3, 4))", "ms.CSRTensor(c, c, v[:3], (2, 4))", "ms.CSRTensor(c, c, v[:3])", "ms.CSRTensor(c, v[:3], v[:3], (2, 4))", "ms.CSRTensor(c, c, v[:3], (2,))")],
]
_FURTHER = [
    *[f"ops.{call}" for call in (
        "det(spd)", "slogdet(spd)", "logdet(spd)", "inverse(spd)", "pinv(a)", "cholesky(spd)", "cholesky(spd, True)", "cholesky_solve(m, ops.cholesky(spd[:3, :3]))", "qr(a)", "svd(a)[0]", "matrix_exp(spd)", "matrix_power(spd, 3)", "matrix_norm(a)", "vector_norm(a)", "vector_norm(t, 3, (0, 2))", "vecdot(a, b)",
        "kron(v, v)", "kron(a, m)", "cross(a[:, :3], b[:, :3])", "block_diag(a, m)", "adjoint(a)", "cov(a)", "dist(a, b)", "addr(a, v[:3], v)", "addbmm(a @ m, t, ops.stack((m, m)))", "batch_dot(t, ops.stack((m, m)))", "trapz(a)", "trapz(a, v)", "vander(v)", "lstsq(m, m)", "matrix_solve(spd, m)", "fft(a)", "ifft(a)", "rfft(a)", "irfft(a)", "fft2(a)", "fftn(t)", "fftshift(v)", "ifftshift(v)",
        "bessel_i0(a)", "bessel_i1(a)", "bessel_j0(p)", "bessel_j1(p)", "bessel_k0(p)", "bessel_k1(p)", "bessel_y0(p)", "bessel_y1(p)", "bessel_i0e(a)", "bessel_k0e(p)", "i0(a)", "igamma(p, p)", "igammac(p, p)", "zeta(p + 1, p)", "polygamma(1, p)", "mvlgamma(p + 2, 2)", "xdivy(a, b)", "xdivy(i, j)",
        "is_tensor(a)", "is_tensor(3)", "is_floating_point(a)", "is_floating_point(i)", "is_complex(a)", "is_nonzero(v[0])", "is_nonzero(a)", "type_as(a, i)", "expand_as(v, a)", "view_as(a, m)", "positive(a)", "isposinf(a)", "isneginf(a)", "gcd(i, j)", "lcm(i, j)", "nextafter(a, b)", "logaddexp2(a, b)", "ldexp(a, j)", "truncate_div(i, j)", "truncate_div(a, b)", "truncate_mod(i, j)", "truncate_mod(a, b)", "angle(a)", "polar(p, a)",
        "population_count(w)", "swiglu(a)", "clip_by_norm(a, 1.0)", "clip_by_global_norm([a, b], 1.0)", "renorm(a, 2, 0, 1.0)", "aminmax(a)", "aminmax(a, axis=1, keepdims=True)", "nanmean(a)", "quantile(a, 0.5)", "quantile(a, 0.3, 1)", "nanquantile(a, 0.5)", "logcumsumexp(a, 1)", "diff(a)", "diff(a, 2, 0)", "msort(a)", "bucketize(a, [-1.0, 0.0, 1.0])", "unique_consecutive(c)", "unique_consecutive(c, True, True)", "intopk(a, c, 2)", "pdist(a)",
        "cartesian_prod(v, c)", "combinations(v, 2)", "take(a, c)", "embedding(c, a)", "sequence_mask(c, 5)", "sequence_mask(c)", "fills(a, 2)", "index_fill(a, 1, c[:1], 9.0)", "select_scatter(a, v, 0, 1)", "slice_scatter(a, b[:2], 0, 1, 3)", "inplace_update(a, b[:2], (0, 2))", "tensor_scatter_mul(v, Tensor(np.array([[1], [1]])), v[:2])", "tensor_scatter_div(v, Tensor(np.array([[1]])), v[:1])", "tensor_scatter_elements(a, Tensor(np.array([[0, 1]])), b[:1, :2], 1)",
        "tensor_scatter_elements(a, Tensor(np.array([[0, 0]])), b[:1, :2], 1, 'add')", "scatter_add(weight(a), Tensor(np.int32([0, 0])), b[:2])", "scatter_update(weight(a), Tensor(np.int32([2, 0])), b[:2])", "scatter_mul(weight(a), Tensor(np.int32([0, 1])), b[:2])", "scatter_max(weight(a), Tensor(np.int32([0, 1])), b[:2])", "scatter_nd_add(weight(v), Tensor(np.array([[1], [1]], np.int32)), v[:2])", "unsorted_segment_sum(a, Tensor(np.int32([1, 0, 1])), 3)",
        "unsorted_segment_max(a, Tensor(np.int32([1, 0, 1])), 2)", "unsorted_segment_prod(a, Tensor(np.int32([1, 0, 1])), 3)", "hsplit(a, 2)", "vsplit(a, 3)", "dsplit(t, 2)", "diagflat(v)", "diagflat(v, 1)", "diag_embed(a)", "diag_embed(a, 1, 0, 2)", "matrix_diag(a)", "matrix_band_part(spd, 1, 0)", "mirror_pad(a, Tensor(np.array([[1, 1], [2, 0]])), 'REFLECT')", "hamming_window(7)", "hann_window(7)", "hann_window(6, False)", "bartlett_window(7)", "blackman_window(7)",
        "kaiser_window(7)", "hann_window(-1)", "hann_window(1.5)", "tensor_add(a, b)", "tensor_lt(a, b)", "pows(p, 2)", "reverse(a, (0,))", "row_stack((a, b))", "soft_shrink(a)", "top_k(v, 2)", "gamma((2,), p, p).shape", "poisson((2,), p).shape", "laplace((2, 3), Tensor(0.0), Tensor(1.0)).shape", "shuffle(a).shape")],
    *[f"ops.{call}" for call in ("Lgamma()(p)", "Digamma()(p)", "Xdivy()(a, b)", "TruncateDiv()(i, j)", "TruncateMod()(i, j)", "Hypot()(a, b)", "Lerp()(a, b, Tensor(0.5))", "Conj()(a)", "FastGeLU()(a)", "SeLU()(a)", "Tril()(a)", "Triu(1)(a)", "Cholesky()(spd)", "MatrixInverse()(spd)", "MatrixDeterminant()(spd)", "LRN()(image)", "Cdist()(a, b)",
        "ReverseSequence(0, 1)(x, lengths)", "SmoothL1Loss()(a, b)", "KLDivLoss()(a, p)", "SoftShrink()(a)", "HShrink()(a)", "CeLU()(a)", "ScatterAdd()(weight(a), Tensor(np.int32([0, 0])), b[:2])", "ScatterNdUpdate()(weight(v), Tensor(np.array([[1]], np.int32)), v[:1])", "TensorScatterMax()(v, Tensor(np.array([[1]])), v[:1])", "UnsortedSegmentSum()(a, Tensor(np.int32([1, 0, 1])), 3)", "StopGradient()(a)", "LayerNorm()(a, v, v)[0]",
        "BatchNorm()(image, v[:3], v[:3], v[:3], p[0, :3])[0]", "AvgPool(2, 2)(image)", "AvgPool(3, 2, 'same')(image)", "Conv3D(2, 3)(volume, volume[:2, :, :3, :3, :3])", "Pad(((1, 2), (0, 1)))(a)", "Dropout(1.0)(a)[0]", "L2Loss()(a)", "SparseSoftmaxCrossEntropyWithLogits()(a, c)", "MirrorPad('SYMMETRIC')(a, Tensor(np.array([[1, 1], [2, 0]])))", "IndexAdd(0)(a, Tensor(np.int32([0, 1])), b[:2])", "NextAfter()(a, b)", "PopulationCount()(w)")],
    *[f"nn.{call}" for call in ("Tril()(a)", "Triu()(a, 1)", "Norm()(a)", "Norm(1, True)(a)", "OneHot(depth=5)(c)", "OneHot(0, 5, 2.0, -1.0)(c)", "Range(1, 9, 3)()", "Range(0.0, 1.0, 0.25)()", "Roll(1, 0)(a)", "Moments(0)(a)", "Moments(1, True)(a)", "MatMul(False, True)(a, b)", "L1Regularizer(0.5)(a)", "ClipByNorm()(a, Tensor(np.float32(1.0)))", "TimeDistributed(nn.Dense(4, 2, 'ones', has_bias=False), 1)(t)", "EmbeddingLookup(5, 2, 'ones')(c)", "L1Regularizer(-1.0)", "Range(1, 2, 0)",
        "Norm(keep_dims=1)", "MatMul(1)", "EmbeddingLookup(0, 2)")],
    *[f"mint.{call}" for call in ("amax(a, 1)", "amin(a)", "argsort(v)", "count_nonzero(i)", "cummax(a, 1)", "cummin(a, 1)", "cumprod(a, 0)", "diag(v)", "diag(spd, 1)", "diff(a)", "index_add(a, 0, Tensor(np.array([0, 0])), b[:2])", "logsumexp(a, 1)", "nansum(a, 1)", "scatter_add(a, 1, Tensor(np.array([[0, 0]])), b[:1, :2])", "select(a, 1, 2)", "unique(c)", "unique(c, return_counts=True)", "var_mean(a)", "std_mean(a, 1)", "clone(a)", "item(v[0])", "kthvalue(v, 2)",
        "fix(a)", "allclose(a, b)", "bitwise_not(i)", "hstack((a, b))", "erfinv(u)", "ge(a, b)", "mm(a, m)", "isnan(a)", "ravel(a)", "floor_divide(i, j)", "addcmul(a, b, b)", "linalg.inv(spd)", "linalg.norm(a)", "linalg.vector_norm(a)", "linalg.qr(a)", "special.erfc(a)", "special.log_softmax(a, 1)", "special.round(a, decimals=1)", "nn.functional.conv2d(image, image[:, :, :3, :3], padding=1)", "nn.functional.max_pool2d(image, 2)", "nn.functional.avg_pool2d(image, 2)",
        "nn.functional.avg_pool1d(line, 2)", "nn.functional.batch_norm(image, ops.zeros(3), ops.ones(3))", "nn.functional.flatten(t)", "nn.functional.glu(a)", "nn.functional.kl_div(a, p)", "nn.functional.unfold(image, 2)", "nn.functional.embedding(c, a)", "nn.functional.threshold(a, 0.1, 2.0)", "nn.functional.interpolate(image, (4, 4))", "nn.functional.adaptive_avg_pool2d(image, 2)", "nn.functional.group_norm(image, 3)", "nn.functional.normalize(a)", "nn.functional.pixel_shuffle(image[:, :2], 1)")],
    *[f"mnp.{call}" for call in ("append(a, b)", "append(a, b, 0)", "apply_along_axis(mnp.sum, 0, a)", "array_split(a, 2)", "atleast_2d(v)", "broadcast_arrays(v, a)", "diagflat(v)", "ediff1d(v)", "fix(a)", "gcd(i, j)", "lcm(i, j)", "hsplit(a, 2)", "vsplit(a, 3)", "rollaxis(t, 2)", "rot90(a)", "kron(v, v)", "setdiff1d(c, c)", "take_along_axis(a, Tensor(np.array([[0], [1], [2]])), 1)", "isneginf(a)", "isposinf(a)", "logaddexp2(a, b)", "positive(a)", "intersect1d(c, c)", "convolve(v, v)",
        "correlate(v, v)", "corrcoef(a)", "cov(a)", "gradient(v)", "gradient(a)", "interp(v, mnp.arange(4).astype('float32'), v)", "trapz(a)", "trapz(v, v)", "unwrap(v)", "polyadd(v, v)", "polyder(v)", "polyint(v)", "polymul(v, v)", "polysub(v, v)", "polyval(v, a)", "ptp(a)", "bitwise_not(i)", "argwhere(l)", "fabs(a)", "divmod(i, j)", "isscalar(3)", "isscalar(a)", "array_equiv(a, a)", "isin(c, [1, 2])", "in1d(c, c)", "cumprod(a)", "cumprod(a, 1)", "nancumsum(a)", "promote_types(ms.int32, ms.float32)",
        "digitize(v, [-1.0, 0.0, 1.0])", "multi_dot([a, m, a])", "geomspace(1, 8, 4)", "bartlett(5)", "blackman(5)", "hamming(5)", "hanning(5)", "histogram_bin_edges(v, 4)", "histogram2d(v, v, 3)", "indices((2, 3))", "tril_indices(3)", "triu_indices(3, 1)", "diag_indices(3)", "tril_indices_from(spd)", "sometrue(l)", "mgrid[0:3, 0:2]", "ogrid[0:3, 0:2]", "vander(v)", "select([l], [a])", "unravel_index(c, (2, 3))", "ix_(c, c)", "dsplit(t, 2)", "choose(c, [v, v, v, v])", "rot90(a, 2)")],
]
_CTC = "Tensor(np.int32([[1, 2], [3, 3], [2, 0]]))"
# Classes and functions of nn whose arguments have the same names and defaults.
_NAMED = """
    Accuracy AdamOffload AdamWeightDecay AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d
    BatchNorm3d BiDense BleuScore CELU CTCLoss CentralCrop ChannelShuffle ClipByNorm ConfusionMatrix ConfusionMatrixMetric ConstantPad1d ConstantPad2d ConstantPad3d Conv1d Conv1dTranspose Conv2d Conv2dBnAct Conv2dTranspose Conv3d
    Conv3dTranspose CosineDecayLR CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss Dense DenseBnAct Dice DiceLoss Dropout Dropout1d Dropout2d Dropout3d DynamicLossScaleUpdateCell ELU Embedding EmbeddingLookup ExponentialDecayLR
    Fbeta FixedLossScaleUpdateCell Flatten FocalLoss ForwardValueAndGrad GELU GLU GRUCell GaussianNLLLoss GradAccumulationCell GraphCell GroupNorm HShrink Hardtanh HausdorffDistance HingeEmbeddingLoss HuberLoss InstanceNorm1d
    InstanceNorm2d InstanceNorm3d InverseDecayLR KLDivLoss L1Loss L1Regularizer LPPool1d LPPool2d LRN LSTMCell LayerNorm LeakyReLU Linear LogSoftmax LossBase MAELoss MSELoss MSSSIM MarginRankingLoss MatMul MaxPool1d MaxPool2d
    MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d MeanSurfaceDistance Moments MultiClassDiceLoss MultiFieldEmbeddingLookup MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention MultilabelMarginLoss NLLLoss NaturalExpDecayLR Norm
    OcclusionSensitivity OneHot Optimizer PReLU PSNR Pad ParameterUpdate Perplexity PixelShuffle PixelUnshuffle PoissonNLLLoss PolynomialDecayLR Precision RNNCell ROC RReLU Range Recall ReduceLogSumExp ReflectionPad1d ReflectionPad2d
    ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d Roll RootMeanSquareDistance SSIM SmoothL1Loss SoftMarginLoss SoftShrink Softmax SoftmaxCrossEntropyWithLogits Softmin SyncBatchNorm Threshold TimeDistributed
    TopKCategoricalAccuracy TrainOneStepCell TrainOneStepWithLossScaleCell Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss Unflatten
    Upsample WarmUpLR WithEvalCell WithGradCell WithLossCell ZeroPad2d auc cosine_decay_lr exponential_decay_lr get_activation get_metric_fn get_metrics inverse_decay_lr natural_exp_decay_lr piecewise_constant_lr polynomial_decay_lr
    rearrange_inputs warmup_lr
""".split()
_FURTHER_CELLS = [
    *[f"defaults(nn.{name})" for name in (*_NAMED, "FractionalMaxPool2d", "FractionalMaxPool3d", "Jvp", "Vjp", "SparseTensorDenseMatmul")],
    *[f"nn.CTCLoss({options})(ops.log_softmax(x, -1), {_CTC}, lengths, Tensor(np.int32([2, 2, 1])))" for options in ("reduction='sum'", "reduction='none'", "reduction='none', zero_infinity=True", "1, reduction='none'")],
    *[f"ops.ctc_loss(ops.log_softmax({given}))[0]" for given in (f"x, -1), {_CTC}, lengths, Tensor(np.int32([2, 1, 0])", f"x, -1), {_CTC}.astype(ms.int64), lengths, Tensor(np.int32([2, 1, 1])), 0, 'none'")],
    *[f"gradient(lambda x, *others: nn.CTCLoss(reduction='{reduction}')(ops.log_softmax(x, -1), *others), x, {_CTC}, Tensor(np.int32([5, 4, 3])), Tensor(np.int32([2, 2, 1])))" for reduction in ("none", "sum")],
    "nn.CTCLoss(reduction='none')(ops.log_softmax(x[:, 0], -1), Tensor(np.int32([1, 2])), Tensor(np.int32([5])), Tensor(np.int32([2])))",
    *[f"nn.CTCLoss({wrong}" for wrong in (f"'a')(x, {_CTC}, lengths, lengths)", f"reduction='x')(x, {_CTC}, lengths, lengths)", f"reduction=1)(x, {_CTC}, lengths, lengths)", f"zero_infinity=1)(x, {_CTC}, lengths, lengths)", f"9)(x, {_CTC}, lengths, lengths)", "0)(x, a, lengths, lengths)", f"0)(i, {_CTC}, lengths, lengths)", f"0)(x, {_CTC}, c[:2], lengths)", "0)(x, 3, lengths, lengths)",
                                          f"0)(a[None, None], {_CTC}, lengths, lengths)")],
    *[f"nn.{call}" for call in ("SSIM(0)", "SSIM('a')", "SSIM(filter_size=0)", "SSIM(filter_size=1.5)", "SSIM(filter_sigma=0.0)", "SSIM(k1=1)", "SSIM()(image, image)", "SSIM(filter_size=3)(a, a)", "SSIM(filter_size=3)(image, image[:1])", "SSIM(filter_size=3)(image, image.astype(ms.float64))", "SSIM(filter_size=3)(image.astype(ms.float64), image)", "MSSSIM(power_factors=1)", "PSNR(-1)", "PSNR('a')", "PSNR()(a, a)",
                                "PSNR()(image, image[:1])", "PSNR()(image, image.astype(ms.float16))")],
    *[f"names(nn.{layer})" for layer in ("SSIM()", "MSSSIM()", "Conv2dBnAct(3, 4, 3)", "Conv2dBnAct(3, 4, 3, has_bias=True, has_bn=True, activation='relu')", "DenseBnAct(3, 4, has_bn=True, activation='leakyrelu')", "MultiFieldEmbeddingLookup(5, 2, 3)", "DynamicLossScaleUpdateCell(8, 2, 3)", "FixedLossScaleUpdateCell(8)")],
    *[f"{call}(filled(nn.{layer}), {inputs})" for call in ("(lambda cell, *inputs: cell(*inputs))", "gradients") for layer, inputs in (("Conv2dBnAct(3, 4, 3, activation='relu')", "image"), ("Conv2dBnAct(3, 4, 3, 2, 'pad', 1, has_bn=True, activation='leakyrelu', alpha=0.3)", "image"), ("DenseBnAct(4, 2, has_bn=True, activation=nn.Tanh())", "a"))],
    *[f"nn.{wrong}" for wrong in ("Conv2dBnAct(3, 4, 3, has_bn=1)", "Conv2dBnAct(3, 4, 3, activation=3)", "DenseBnAct(3, 4, after_fake=1)", "DenseBnAct(0, 4)", "DenseBnAct(3, 4, activation='x')")],
    "nn.IGamma()(p, p * 2)", "nn.IGamma()(p, v * v)", "nn.IGamma()(d, d)", "nn.LBeta()(p, p * 3)", "nn.LBeta()(p * 20, p)", "nn.LBeta()(d, d)",
    *[f"filled(nn.MultiFieldEmbeddingLookup(5, 2, 3, operator='{operator}'{more}))(Tensor(np.int32([[2, 4, 1, 0], [1, 3, 3, 0]])), Tensor(np.float32([[1, 2, 0.5, 0], [1, -1, 3, 0]])), Tensor(np.int32([[0, 1, 1, 0], [0, 0, 2, 0]])))" for operator in ("SUM", "MEAN", "MAX") for more in ("",)],
    *[f"nn.MultiFieldEmbeddingLookup(5, 2, {wrong}" for wrong in ("0)", "3, operator='x')", "3)(c, c, c)")],
    *[f"(lambda cell, scale: [[ms.Tensor(cell(scale, Tensor(o)).asnumpy()), scale * 1] for o in {flags}])(nn.DynamicLossScaleUpdateCell(8, {rest}), ms.Parameter(Tensor(8.0), name='s'))" for rest in ("2, 3", "4, 1") for flags in ("[False] * 7", "[True] * 5", "[False, True, False, False, True, False, False, False, False]")],
    "nn.FixedLossScaleUpdateCell(8)(Tensor(1.0), Tensor(True))", "nn.FixedLossScaleUpdateCell(8).get_loss_scale()", "nn.TrainOneStepWithLossScaleCell(nn.Dense(4, 2), nn.SGD([weight(a)]), 3)", "nn.TrainOneStepWithLossScaleCell(nn.Dense(4, 2), nn.SGD([weight(a)]), v)", "nn.TrainOneStepCell(nn.Dense(4, 2), nn.SGD([weight(a)]), 0)",
    *[f"(lambda net: nn.ForwardValueAndGrad(net, {options})({inputs}))(filled(nn.Dense(4, 2)))" for options, inputs in (("", "a"), ("get_all=True", "a"), ("net.trainable_params(), get_by_list=True", "a"), ("net.trainable_params(), True, True", "a"), ("sens_param=True", "a, m.T[:, :2]"))],
    "(lambda net: nn.WithGradCell(net, nn.MSELoss())(a, m.T[:, :2]))(filled(nn.Dense(4, 2)))", "(lambda net: nn.WithGradCell(net)(a))(filled(nn.Dense(4, 2)))",
    "(lambda w: [nn.ParameterUpdate(w)(b), w * 1])(weight(a))", "nn.ParameterUpdate(3)", "nn.ForwardValueAndGrad(3)", "nn.ForwardValueAndGrad(nn.ReLU(), get_all=1)", "nn.ForwardValueAndGrad(nn.ReLU(), 3, get_by_list=True)", "nn.GradAccumulationCell(3, 2)", "nn.GradAccumulationCell(nn.ReLU(), 0)", "nn.GradAccumulationCell(nn.ReLU(), 1.5)", "nn.GradAccumulationCell(nn.ReLU(), 3)(a)",
    "nn.GradAccumulationCell(nn.ReLU(), 2)(a)",
    *[f"{call}(nn.FractionalMaxPool{n}d({options}, _random_samples=ops.sigmoid({x}[:, :, :{n}{inner}])), {x})" for n, x, inner in ((2, "image", ", 0"), (3, "volume", ", 0, 0")) for call in ("(lambda cell, *inputs: cell(*inputs))", *["gradients"] * (n == 3)) for options in ("2, 3" if n == 2 else "2, 2", "(3, 2), (4, 5)" if n == 2 else "(1, 2, 3), (3, 3, 3)", "2, output_ratio=0.5")],
    *[f"nn.{call}" for call in ("FractionalMaxPool2d(2, 3, return_indices=True, _random_samples=ops.sigmoid(image[:, :, :2, 0]))(image)", "FractionalMaxPool3d(2, (2, 3, 4), return_indices=True, _random_samples=ops.sigmoid(volume[:, :, :3, 0, 0]))(volume)", "FractionalMaxPool2d(2, (3, 5), _random_samples=ops.sigmoid(image[:1, :, :2, 0]))(image[0])",
                                "FractionalMaxPool2d(2)(image)", "FractionalMaxPool2d(2, 3, 0.5)(image)", "FractionalMaxPool2d(2, 3, return_indices=1)(image)", "FractionalMaxPool2d(2, 8)(image)", "FractionalMaxPool2d(2, output_ratio=1.5)(image)", "FractionalMaxPool2d(2, output_ratio=1)(image)", "FractionalMaxPool2d(2, 3)(a)", "FractionalMaxPool3d(2)(volume)", "FractionalMaxPool3d(2, 6)(volume)",
                                "FractionalMaxPool2d(2, 3, _random_samples=ops.sigmoid(image[:, :, :3, 0]))(image)")],
    "nn.SparseToDense()(coo(np.maximum(a.asnumpy(), 0)))", *[f"nn.SparseTensorDenseMatmul({options})(Tensor(np.int32([[0, 1], [1, 2]])), v[:2], (3, 4), {dense})" for options, dense in (("", "m"), ("True", "a"), ("False, True", "a"))], "nn.SparseTensorDenseMatmul(1)",
    # places between elements
    *[f"ops.grid_sample({x}, {grid}, '{mode}', '{padding}', {aligned})" for x, grid, modes in (("image", "ops.tanh(ops.interpolate(image, (5, 4)))[:, :2].transpose((0, 2, 3, 1)) * 1.4", ("bilinear", "nearest")), ("volume", "volume.transpose((0, 2, 3, 4, 1))[:, :, :3] * 0.7", ("bilinear", "nearest")))
      for mode in modes for padding in ("zeros", "border", "reflection") for aligned in (True, False)],
    *[f"gradient(ops.grid_sample, image, ops.tanh(ops.interpolate(image, (5, 4)))[:, :2].transpose((0, 2, 3, 1)) * 1.2{options})" for options in ("", ", 'bilinear', 'border', True", ", 'nearest', 'reflection'")],
    *[f"ops.grid_sample({wrong})" for wrong in ("a, a", "image, image", "image, image[:, :, :, :2], 'x'", "image, image[:, :, :, :2], 'bilinear', 'x'", "image, image[:, :, :, :2], 'bilinear', 'zeros', 1", "image, image[:, :, :, :2].astype(ms.float64)", "volume, volume[:, :, :, :, :3], 'bicubic'")],
    *[f"ops.affine_grid({given})" for given in ("t[:, :2, :3], (2, 3, 4, 5)", "t[:, :2, :3], (2, 3, 4, 5), True", "t, (2, 1, 2, 3, 4)", "t, (2, 1, 2, 3, 4), True", "t[:, :2, :3], (2, 3, 1, 1), True", "t[:, :2, :3], (2, 3, 1, 1)", "a, (2, 3, 4, 5)", "3, (2, 3, 4, 5)", "t, [2, 1, 2, 3, 4]", "t, (2, 1, 2, 3, 4), 1", "t[:, :2, :3], (3, 3, 4, 5)")],
    # measures
    *[f"measured(nn.{metric}, {batch})" for metric, batch in (("Dice()", "(ops.abs(a), l.astype(ms.float32)), (p, p)"), ("Dice(0.5)", "(p, l)"), ("BleuScore()", "([['the', 'cat', 'is', 'on', 'the', 'mat']], [[['there', 'is', 'a', 'cat', 'on', 'the', 'mat'], ['a', 'cat', 'is', 'on', 'the', 'mat']]]), ([['a', 'b', 'c', 'd', 'e']], [[['a', 'b', 'c', 'd', 'f', 'g']]])"),
        ("BleuScore(2, True)", "([['a', 'b', 'c']], [[['a', 'b', 'd'], ['b', 'c']]])"), ("BleuScore()", "([['a', 'b']], [[['a', 'b']]])"), *[(f"CosineSimilarity({options})", "(a,)") for options in ("", "'dot'", "'cosine', 'mean'", "'dot', 'sum', False")], *[(f"{metric}({options})", "(Tensor([[3, 0, 1, 0], [1, 3, 0, 1], [1, 1, 2, 0], [0, 0, 1, 1]]), Tensor([[0, 2, 1, 3], [1, 2, 1, 1], [0, 1, 3, 1], [3, 3, 0, 1]]), 1)")
          for metric, several in (("HausdorffDistance", ("", "'chessboard'", "'taxicab', directed=True", "'euclidean', 50.0", "crop=False")), ("MeanSurfaceDistance", ("", "True", "False, 'taxicab'", "True, 'chessboard'")), ("RootMeanSquareDistance", ("", "True", "False, 'taxicab'", "True, 'chessboard'"))) for options in several])],
    *[f"measured(nn.ROC({options}), {batch})" for options, batch in (("", "(v, Tensor([0, 1, 1, 0]))"), ("pos_label=2", "(p[0], Tensor([2, 1, 0, 2]))"), ("1", "(Tensor([0.5, 0.5, 0.2, 0.7, 0.5]), Tensor([1, 0, 1, 0, 1]))"))],
    "[np.asarray(q, float) for part in (lambda r: (r.update(spd, Tensor([0, 1, 2, 3])), r.eval())[1])(nn.ROC(class_num=4)) for q in part]", "nn.auc(np.array([0.0, 0.4, 1.0]), np.array([0.0, 0.8, 1.0]))", "nn.auc(np.array([3.0, 0.4, 1.0]), np.array([0.0, 0.8, 1.0]), True)", "nn.auc(np.array([3.0, 2.0, 1.0]), np.array([0.0, 0.8, 1.0]))",
    *[f"measured(nn.ConfusionMatrixMetric({skip}, '{name}'{more}), (Tensor([[[0], [1]], [[1], [0]], [[1], [1]]]), Tensor([[[0], [1]], [[1], [1]], [[1], [0]]])))" for skip in ("True", "False") for more in ("",) for name in ("sensitivity", "specificity", "precision", "npv", "miss rate", "fall_out", "fdr", "for", "ts", "accuracy", "ba", "f1", "mcc", "fm", "informedness", "markedness", "prevalence_threshold")],
    *[f"measured(nn.ConfusionMatrixMetric(True, '{name}', True, '{decrease}'), (l.reshape((2, 3, 2)), (a > b).reshape((2, 3, 2))), ((b > 0).reshape((2, 3, 2)), l.reshape((2, 3, 2))))" for name in ("tpr", "f1", "acc", "mcc") for decrease in ("mean", "sum")],
    *[f"nn.{wrong}" for wrong in ("Dice(0.0)", "Dice(1)", "Dice().eval()", "Dice().update(a)", "Dice().update(a, m)", "ROC(1.5)", "ROC(pos_label=1.5)", "ROC().eval()", "ROC().update(a)", "ROC(3).update(a, a)", "ROC(pos_label=1).update(a, c)", "ROC(3).update(a, c)", "ROC().update(t, c)", "auc([1], [2])", "auc(np.ones(3), np.ones(2))", "auc(np.ones((3, 2)), np.ones((3, 2)))", "auc(np.ones(1), np.ones(1))",
                                  "auc(np.array([1.0, 3.0, 2.0]), np.ones(3))", "BleuScore(5)", "BleuScore(1.5)", "BleuScore(4, 1)", "BleuScore().eval()", "BleuScore().update([['a']], [])", "BleuScore().update([['a']])", "CosineSimilarity('x')", "CosineSimilarity(1)", "CosineSimilarity(reduction='x')", "CosineSimilarity(zero_diagonal=1)", "CosineSimilarity().eval()", "HausdorffDistance('x')", "HausdorffDistance(1)",
                                  "HausdorffDistance(percentile=1)", "HausdorffDistance(directed=1)", "HausdorffDistance(crop=1)", "HausdorffDistance().eval()", "HausdorffDistance().update(i, i)", "HausdorffDistance().update(i, i, 'a')", "HausdorffDistance().update(i, i, 99)", "HausdorffDistance().update(i, i[:2], 1)", "MeanSurfaceDistance(1)", "MeanSurfaceDistance(distance_metric='x')", "MeanSurfaceDistance().update(i, i, 'a')",
                                  "RootMeanSquareDistance(1)", "RootMeanSquareDistance().update(i, i, 'a')", "ConfusionMatrixMetric(1)", "ConfusionMatrixMetric(metric_name=1)", "ConfusionMatrixMetric(decrease='x')", "ConfusionMatrixMetric(decrease=1)", "ConfusionMatrixMetric().update(a)", "ConfusionMatrixMetric().update(l, a)", "ConfusionMatrixMetric().update(v, l[0])", "ConfusionMatrixMetric(calculation_method=True).eval()", "OcclusionSensitivity(1)", "OcclusionSensitivity(margin='a')",
                                  "OcclusionSensitivity(n_batch=1.5)", "OcclusionSensitivity(b_box=1)", "OcclusionSensitivity().eval()", "OcclusionSensitivity().update(nn.ReLU(), a)", "OcclusionSensitivity().update(3, a[:1], c[:1])", "OcclusionSensitivity().update(nn.ReLU(), a, c)", "OcclusionSensitivity(b_box=[1]).update(nn.ReLU(), a[:1], c[:1])", "Metric().clear()", "MAE().set_indexes(1)", "MAE().set_indexes([1.5])")],
    "nn.MAE().set_indexes([1, 0])(a, b)", "nn.MSE().set_indexes([0, 2])(a, v, b)", "nn.MAE()(a, b)",
    # learning rates
    *[f"[nn.{schedule}(Tensor(s, ms.int32)) for s in (0, 1, 3, 4, 9)]" for schedule in ("ExponentialDecayLR(0.1, 0.9, 4)", "ExponentialDecayLR(0.1, 0.9, 4, True)", "NaturalExpDecayLR(0.1, 0.9, 4)", "NaturalExpDecayLR(0.1, 0.9, 4, True)", "InverseDecayLR(0.1, 0.5, 4)", "InverseDecayLR(0.1, 0.5, 4, True)", "CosineDecayLR(0.01, 0.1, 4)", "PolynomialDecayLR(0.1, 0.01, 4, 0.5)", "PolynomialDecayLR(0.1, 0.01, 4, 2.0, True)", "WarmUpLR(0.1, 4)")],
    *[f"nn.{name}_lr({given})" for name, given in (("exponential_decay", "0.1, 0.9, 9, 2, 2"), ("exponential_decay", "0.1, 0.9, 9, 2, 2, True"), ("natural_exp_decay", "0.1, 0.9, 9, 2, 2"), ("natural_exp_decay", "0.1, 0.9, 9, 2, 2, True"), ("inverse_decay", "0.1, 0.5, 9, 2, 2"), ("inverse_decay", "0.1, 0.5, 9, 2, 2, True"), ("cosine_decay", "0.01, 0.1, 9, 2, 3"), ("polynomial_decay", "0.1, 0.01, 9, 2, 3, 0.5"),
                                                   ("polynomial_decay", "0.1, 0.01, 9, 2, 3, 2.0, True"), ("warmup", "0.1, 9, 2, 3"), ("piecewise_constant", "[2, 5, 7], [0.1, 0.05, 0.01]"))],
    *[f"nn.{wrong}" for wrong in ("ExponentialDecayLR('a', 0.9, 4)", "ExponentialDecayLR(0.1, 0.0, 4)", "ExponentialDecayLR(0.1, 0.9, 0)", "ExponentialDecayLR(0.1, 0.9, 1.5)", "ExponentialDecayLR(0.1, 0.9, 4, 1)", "ExponentialDecayLR(1, 0.9, 4)", "NaturalExpDecayLR(-0.1, 0.9, 4)", "NaturalExpDecayLR(0.1, 0.9, 4, 'a')", "InverseDecayLR(0.1, -0.5, 4)", "CosineDecayLR(-0.1, 0.1, 4)", "CosineDecayLR(0.2, 0.1, 4)", "CosineDecayLR('a', 0.1, 4)",
                                  "CosineDecayLR(0, 0.1, 4)", "CosineDecayLR(0.0, 0.1, 0)", "PolynomialDecayLR(0.1, -0.1, 4, 0.5)", "PolynomialDecayLR(0.1, 0.01, 4, 0.0)", "PolynomialDecayLR(0.1, 0.01, 4, 'a')", "PolynomialDecayLR(0.1, 0.01, 4, 0.5, 1)", "PolynomialDecayLR(0.1, 'a', 4, 0.5)", "WarmUpLR(0.0, 4)", "WarmUpLR(0.1, 0)", "WarmUpLR(0.1, 1.5)", "WarmUpLR('a', 4)", "piecewise_constant_lr([2, 1], [0.1, 0.2])", "piecewise_constant_lr([2], [0.1, 0.2])", "piecewise_constant_lr(2, [0.1])",
                                  "piecewise_constant_lr([1.5], [0.1])", "piecewise_constant_lr([2], ['a'])", "exponential_decay_lr(0.1, 0.9, 0, 2, 2)", "exponential_decay_lr(0.1, 0.9, 6, 2.5, 2)", "exponential_decay_lr('a', 0.9, 6, 2, 2)", "exponential_decay_lr(0.1, 0.9, 6, 2, 2, 1)", "natural_exp_decay_lr(-0.1, 0.9, 6, 2, 2)", "natural_exp_decay_lr(0.1, 0.9, 0, 2, 2)", "cosine_decay_lr(0.2, 0.1, 6, 2, 2)", "warmup_lr(0.1, 6, 2, 0)",
                                  "polynomial_decay_lr(0.1, 0.01, 6, 2, 2, 0.0)", "inverse_decay_lr(0.1, 0.0, 6, 2, 2)")],
    "[(lambda o: (o((b,)), o.get_lr())[1])(nn.SGD([weight(a)], nn.WarmUpLR(0.1, 4)))]",
    # what is measured while training
    *[f"ms.train.{call}" for call in ("DynamicLossScaleManager(0.5)", "DynamicLossScaleManager(scale_window=0)", "DynamicLossScaleManager(scale_window=1.5)", "DynamicLossScaleManager(scale_factor=0)", "FixedLossScaleManager(0.5)", "FixedLossScaleManager().get_loss_scale()", "FixedLossScaleManager().get_drop_overflow_update()", "DynamicLossScaleManager().get_loss_scale()", "FixedLossScaleManager(8, False).get_update_cell() is None",
                                      "EarlyStopping(1)", "EarlyStopping(mode='x')", "EarlyStopping(patience=-1)", "EarlyStopping(min_delta='a')", "EarlyStopping(verbose=1)", "EarlyStopping(restore_best_weights=1)", "ReduceLROnPlateau(factor=1.5)", "ReduceLROnPlateau(factor='a')", "ReduceLROnPlateau(patience=1.5)", "ReduceLROnPlateau(cooldown=-1)", "ReduceLROnPlateau(min_lr='a')", "ReduceLROnPlateau(mode='x')", "CheckpointConfig(-1)", "CheckpointConfig(0, 0, 0, 0)", "CheckpointConfig(saved_network=3)",
                                      "ModelCheckpoint(3)", "ModelCheckpoint('a/b')", "ModelCheckpoint(config=3)", "LossMonitor(-1)", "LossMonitor('a')", "LossMonitor(1.5)")],
    *[f"nn.get_metrics({given})" for given in ("3", "{'a': 3}", "{'x'}", "None) is (None")],
    *[f"(lambda s: [(s.update_loss_scale(o), float(s.get_loss_scale()))[1] for o in {flags}])(ms.train.DynamicLossScaleManager(8, {rest}))" for rest in ("2, 3", "4, 1") for flags in ("[False] * 7", "[True] * 5", "[False, True, False, False, True, False, False, False, False]")],
    *[f"ms.Model({wrong}" for wrong in ("3)", "nn.Dense(4, 2), metrics={'x'})", "nn.Dense(4, 2), metrics=3)", "nn.Dense(4, 2), nn.MSELoss(), nn.SGD([weight(a)]), {'mse'}, nn.ReLU(), [1])", "nn.Dense(4, 2)).eval(3)", "nn.Dense(4, 2), amp_level='x')")],
]

# What primitives write into parameters.
_UPDATES = [
    "updated(ops.ApplyMomentum(), (a, b), 0.1, p, 0.9)",
    "updated(ops.SGD(0.1, 0.01), (a,), b, Tensor(0.1, ms.float32), p, Tensor(0.9, ms.float32), a * 0 + 1)",
    "updated(ops.SGD(0.1, 0.01), (a,), b, Tensor(0.1, ms.float32), p, Tensor(0.9, ms.float32), a * 0)",
    "updated(ops.SGD(0.0, 0.01, True), (a,), b, Tensor(0.1, ms.float32), p, Tensor(0.9, ms.float32), a * 0)",
    "updated(ops.Adam(), (a, b, p), 0.9, 0.99, 0.01, 0.9, 0.99, 1e-8, u)",
    "updated(ops.Adam(use_nesterov=True), (a, b, p), 0.9, 0.99, 0.01, 0.9, 0.99, 1e-8, u)",
    "updated(ops.AdamWeightDecay(), (a, b, p), 0.01, 0.9, 0.99, 1e-8, 0.1, u)",
    "updated(ops.ApplyAdamWithAmsgradV2(), (a, b, p, p), 0.9, 0.99, 0.01, 0.9, 0.99, 1e-8, u)",
    "updated(ops.ApplyAdaMax(), (a, b, p), 0.9, 0.01, 0.9, 0.99, 1e-8, u)",
    "updated(ops.ApplyAdadelta(), (a, p, p), 0.01, 0.9, 1e-6, b)",
    "updated(ops.ApplyAdagrad(), (a, p), 0.01, b)",
    "updated(ops.ApplyAdagradV2(1e-3), (a, p), 0.01, b)",
    "updated(ops.ApplyAddSign(), (a, b), 0.1, 1.0, 0.9, 0.9, u)",
    "updated(ops.ApplyPowerSign(), (a, b), 0.1, 2.0, 0.9, 0.9, u)",
    "updated(ops.ApplyRMSProp(), (a, p, b), 0.01, u, 0.9, 0.5, 1e-6)",
    "updated(ops.ApplyCenteredRMSProp(), (a, u * 0.1, p, b), b, 0.01, 0.9, 0.5, 1e-6)",
    "updated(ops.ApplyFtrl(), (a, p, b), u, 0.01, 0.0, 0.2, -0.5)",
    "updated(ops.ApplyGradientDescent(), (a,), 0.1, b)",
    "updated(ops.ApplyProximalGradientDescent(), (a,), 0.1, 0.2, 0.3, b)",
    "updated(ops.ApplyProximalAdagrad(), (a, p), 0.1, 0.2, 0.3, b)",
    "updated(ops.ApplyAdagradDA(), (a, b, p), u, 0.01, 0.0, 0.2, 3)",
    "updated(ops.SparseApplyAdagrad(0.1), (a, p), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.SparseApplyAdagradV2(0.1, 1e-3), (a, p), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.SparseApplyFtrl(0.1, 0.2, 0.3, -0.5), (a, p, u), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.FusedSparseAdam(), (a, u, p), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(0.01, ms.float32), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(1e-08, ms.float32), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.FusedSparseAdam(use_nesterov=True), (a, u, p), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(0.01, ms.float32), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(1e-08, ms.float32), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.FusedSparseLazyAdam(), (a, u, p), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(0.01, ms.float32), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(1e-08, ms.float32), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.FusedSparseFtrl(0.1, 0.2, 0.3, -0.5), (a, p, u), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.FusedSparseProximalAdagrad(), (a, p), Tensor(0.1, ms.float32), Tensor(0.2, ms.float32), Tensor(0.3, ms.float32), b[:2], Tensor(np.int32([2, 0])))",
    "updated(ops.SparseApplyAdagrad(0.1), (a, p), b[:2], Tensor(np.int32([1, 1])))",
    "updated(ops.SparseApplyFtrl(0.1, 0.2, 0.3, -0.5), (a, p, u), b[:2], Tensor(np.int32([1, 1])))",
    "updated(ops.FusedSparseAdam(), (a, u, p), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(0.01, ms.float32), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(1e-08, ms.float32), b[:2], Tensor(np.int32([1, 1])))",
    "updated(ops.FusedSparseLazyAdam(), (a, u, p), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(0.01, ms.float32), Tensor(0.9, ms.float32), Tensor(0.99, ms.float32), Tensor(1e-08, ms.float32), b[:2], Tensor(np.int32([1, 1])))",
    "updated(ops.FusedSparseFtrl(0.1, 0.2, 0.3, -0.5), (a, p, u), b[:2], Tensor(np.int32([1, 1])))",
    "updated(ops.FusedSparseProximalAdagrad(), (a, p), Tensor(0.1, ms.float32), Tensor(0.2, ms.float32), Tensor(0.3, ms.float32), b[:2], Tensor(np.int32([1, 1])))",
]

# Both forms of the methods that MindSpore has two of.
_FORMS = [
    "a.std(0)", "a.std()", "a.std(axis=0)", "a.std(0, ddof=1)", "a.std(0, correction=0, keepdim=True)", "a.var(0)", "a.var(axis=0)", "a.var(0, 1)",
    "a.var(0, 0, True)", "a.std(0, 0, True)", "a.gather(1, places)", "a.gather(two, 1)", "a.gather(dim=0, index=places % 3)", "a.gather(input_indices=two, axis=0)",
    "a.select(1, 0)", "a.select(a> 2, a * 0)", "a.select(dim=0, index=1)", "a.where(a> 2, a * 0)", "a.where(condition=a> 2, other=0.0)", "a.take(two)",
    "a.take(index=two)", "a.take(two, 1)", "a.take(indices=two, axis=0, mode='wrap')", "a.repeat_interleave(2)", "a.repeat_interleave(2, 1)",
    "a.repeat_interleave(2, dim=1)", "a.repeat_interleave(two + 1, 0)", "a.scatter(1, places, a)", "a.scatter(dim=1, index=places, src=2.0)",
    "a.scatter(axis=1, index=places, src=a)", "a.median(1)", "a.median(dim=1, keepdim=True)", "a.median()", "a.argmax(1, True)", "a.argmax(dim=1, keepdim=True)",
    "a.argmin(dim=1)", "a.split(2, 1)", "a.split(split_size=1, dim=1)", "a.split([1, 3], dim=1)", "a.sort(dim=0, descending=True)", "a.sort(0, True, True)",
    "a.argsort(dim=0)", "a.to(ms.int32)", "a.to(dtype=ms.int32, non_blocking=True)", "a.to('CPU')", "a.to(other=places)", "a.to(device='CPU', dtype=ms.int32)",
    "a.to(ms.int32, copy=True)", "a.view(ms.int32)", "a.view(dtype=ms.int32)", "a.view((2, 6))", "a.view(shape=(2, 6))", "a.add(a, alpha=2)", "a.add(1, alpha=2)",
    "a.sub(a, alpha=2)", "a.sub(y=a)", "a.mean(dim=1, keepdim=True, dtype=ms.float64)", "a.mean(1, True)", "a.sum(dim=1, keepdim=True)", "a.sum(1, True)",
    "a.sum(1, ms.float64)", "a.sum(1, ms.float64, True)", "a.sum(axis=1, keepdims=True, initial=3)", "a.prod(dim=1, keepdim=True)", "a.prod(1, True)",
    "a.prod(1, True, ms.float64)", "a.all(dim=1, keepdim=True)", "a.any(dim=1, keepdim=True)", "a.any(1, True)", "a.cumsum(dim=1)", "a.cumsum(1, dtype=ms.float64)",
    "a.count_nonzero()", "a.count_nonzero(1)", "a.chunk(2, dim=1)", "a.index_select(dim=1, index=two)", "a.index_select(1, two)", "a.isclose(x2=a)",
    "a.logical_and(y=a)", "a.matmul(tensor2=a.T)", "a.mm(mat2=a.T)", "a.pow(exponent=2)", "a.remainder(divisor=2)", "a.permute(dims=(1, 0))", "a.tile(dims=(2, 1))",
    "a.tile(reps=(2, 1))", "a.unsqueeze(axis=0)", "a.unsqueeze(dim=0)", "a.expand_as(x=a)", "a.expand_as(other=a)", "a.logsumexp(dim=1, keepdim=True)",
    "a.topk(k=1, dim=0)", "a.topk(2)", "a.flatten(order='C')", "a.flatten(start_dim=0, end_dim=1)", "a.squeeze(axis=None)", "a.max(dim=1)", "a.max((0, 1))",
    "a.max(None)", "a.max(1, keepdims=True)", "a.max(axis=1, keepdims=True, return_indices=True)", "a.min(1, keepdim=True)", "a.max(1, return_indices=True)",
    "a.max()", "a.div(a, rounding_mode='floor')", "a.histc(4, 0, 8)", "a.copy().add_(a, alpha=2)", "a.copy().sub_(a, alpha=2)",
    "a.copy().div_(a, rounding_mode='floor')", "a.lerp(a, 0.5)", "a.less(other=2)", "a.eq(other=2)", "a.greater_equal(other=2)", "a.clamp(max=3)", "a.atan2(other=a)",
    "a.fmod(other=2)", "a.unbind(dim=1)", "a.tril(diagonal=1)", "a.masked_fill(mask=a> 2, value=0.0)", "a.view_as(other=a)",
]

# dtypes that are asked for or mixed, empty Tensors, negative exponents and ids, sequences
_EDGES = [
    *[f"{call}(dtype=ms.{dtype})" for call in ("a.sum", "i.sum", "a.prod") for dtype in ("int32", "int8", "float16")], "ops.prod(i, dtype=ms.uint8)", "mint.sum(a, dtype=ms.bool_)", "ops.nansum(a, dtype=ms.int32)",
    *[f"{home}.{name}(i, 0.5, 1.5)" for home, name in (("ops", "clamp"), ("ops", "clip"), ("mint", "clamp"), ("ops", "clip_by_value"), ("ops", "hardtanh"), ("mnp", "clip"))], "i.clamp(max=a)", "mint.clamp(s, i, i)",
    "mint.clamp(h, a, a)", "ops.hardswish(i)", "ops.hardsigmoid(i)", "ops.mse_loss(i, j)", "nn.MSELoss()(i, j)", "ops.cov(i)", "l - l", "l - ~l", "l - True", "mint.sub(l, ~l)", "l.sub(l)", "j ** -1", "j ** (-j)", "2 ** (-j)",
    "k ** -1", "ops.pow(j, -2)", "j ** i", "ops.squeeze(a, 0)", "a.squeeze((0, 1))", "mint.squeeze(a, 0)", "mint.squeeze(a.sum(), 0)", "t.t()", "mint.t(t)", "ops.softmax(a[:, :0])", "ops.logsumexp(a[:, :0], 1)",
    "ops.group_norm(t[:0], 3)", *[f"ops.unsorted_segment_{name}(a, c - 1, 3)" for name in ("sum", "min", "max", "prod")], "a.argmax(None, True)", "a.argmin(None, True)", "ops.argmax(a, None, True)",
    "v.sort()[0].searchsorted(v)", "mnp.searchsorted(mnp.sort(v), v)", "ops.diag(a)", "t.diag()", "mnp.diag(m)", *[f"ops.atleast_{n}d((v, a, t))" for n in (1, 2, 3)], "ops.unique(ops.log(v))[1]", "ops.unique_consecutive(a[:, :0])",
    "a.resize(2, 2)", "a.resize((4, 5))", "a.stride()", "ops.clip_by_value((a, b), 0, 1)", "ops.cummin(ops.log(v), 0)",
]

ROWS = [
    *[f"ops.{name}({x}, {y})" for name in _BINARY for x in _DTYPES for y in _DTYPES if x <= y],
    *[f"{x} {op} {y}" for op in ("+", "-", "*", "/", "//", "%", "**", "==", "<", ">=") for x, y in (("a", "2"), ("i", "2"), ("i", "2.5"), ("l", "2"), ("h", "2.5"), ("p", "i"), ("2", "a"), ("2.5", "i"), ("s", "w"), ("d", "2"))],
    *[f"{x} {op} {y}" for op in ("&", "|", "^") for x, y in (("i", "j"), ("l", "l"), ("s", "s"))],
    *[f"ops.{name}({x})" for x, names in _UNARY.items() for name in names.split()],
    "-a", "abs(i)", "~l", "~i", "+a",
    *[f"ops.{name}({x})" for name in ("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "all", "any", "std", "var") for x in ("a",)
      ],
    *[f"{x}.{name}()" for name in ("sum", "prod", "max", "min", "mean", "all", "any", "argmax", "argmin") for x in ("a", "i", "k", "h", "d", "l", "s", "w")],
    *[f"{x}.{name}({axis})" for name in ("sum", "max", "min", "mean", "prod") for x in ("a", "i", "t") for axis in ("0", "-1", "axis=1", "axis=0, keepdims=True")],
    *[f"ops.{name}(t, {axis})" for name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "cumsum", "softmax", "log_softmax") for axis in ("0", "-1")],
    "ops.sum(t, (0, 2), True)", "ops.mean(t, (1, 2))", "ops.amax(t, (0, 1))", "ops.logsumexp(a, 1)", "ops.std(a, 1, 1)", "ops.var(a, 0)", "ops.cumprod(a, 0)",
    "ops.cummax(a, 1)", "ops.cummin(a, 1)", "ops.norm(a)", "ops.median(v)", "ops.topk(v, 2)", "ops.sort(a)", "ops.sort(a, 0, True)", "ops.argsort(v, -1, True)",
    "ops.unique(i)", "ops.nonzero(l)", "ops.count_nonzero(i)", "ops.max(a, 1)", "ops.min(a, 0)",
    # shapes
    "ops.reshape(a, (2, -1))", "ops.transpose(a, (1, 0))", "ops.permute(t, (2, 0, 1))", "ops.swapaxes(a, 0, 1)", "ops.squeeze(a[None])", "ops.expand_dims(a, 1)",
    "ops.unsqueeze(a, -1)", "ops.broadcast_to(v, (2, 3, -1))", "ops.flatten(t)", "ops.ravel(a)", "ops.cat((a, b))", "ops.cat((a, b), -1)", "ops.stack((a, b), 1)",
    "ops.split(a, 2, 1)", "ops.split(a, (1, 2))", "ops.chunk(a, 3)", "ops.unbind(a)", "ops.narrow(a, 1, 1, 2)", "ops.slice(a, (1, 0), (2, 3))",
    "ops.strided_slice(a, (0, 0), (3, 4), (2, 3))", "ops.tile(a, (2, 1))", "ops.repeat_interleave(a, 2, 1)", "ops.flip(a, (0,))", "ops.roll(a, 1, 1)",
    "ops.tril(a)", "ops.triu(a, 1)", "ops.diag(v)", "ops.meshgrid(v, v)", "ops.pad(a, (1, 2))", "ops.moveaxis(t, 0, 2)", "ops.movedim(t, 0, 1)",
    "ops.rot90(a, 1, (0, 1))", "ops.atleast_2d(v)", "ops.diagonal(t)", "ops.vstack((a, b))", "ops.hstack((a, b))", "ops.dstack((a, b))", "ops.column_stack((v, v))",
    # indices
    "ops.gather(a, c - 1, 0)", "ops.gather_elements(a, 1, j - 1)", "ops.gather_nd(a, Tensor(np.array([[0, 1], [2, 3]])))", "ops.index_select(a, 0, Tensor(np.array([2, 0])))",
    "ops.masked_select(a, l)", "ops.masked_fill(a, l, 2.0)", "ops.where(l, a, b)", "ops.select(l, a, b)", "ops.one_hot(c, 5)", "ops.searchsorted(v, v)",
    "ops.tensor_scatter_update(v, Tensor(np.array([[1]])), Tensor(np.array([9.0], np.float32)))", "ops.tensor_scatter_add(v, Tensor(np.array([[1], [1]])), v[:2])",
    "ops.scatter_nd(Tensor(np.array([[0], [2]])), v[:2], (3,))", "ops.bincount(c)", "ops.bincount(c, v[:3])", "gradient(lambda x: ops.bincount(c, x), v[:3])",
    *[call.format(x) for x in "i k s w l".split() for call in ("ops.cumprod({}, 0)", "{}.cumprod(1)", "{}.cumsum(0)", "mnp.cumsum({}, 1)", "mnp.cumprod({}, 1)")],
    *[f"a[{index}]" for index in ("0", "-1", "1:", "::2", "::-1", "..., 1", ":, 1:3", "None", ":, None, 1", "[0, 2]", "l", "Tensor(np.array([0, 2]))", "1, 2", "l[:, 0]", "1:1",
                                  "Tensor(np.array([[0, 1], [1, 2]]))", "[True, False, True]", "..., None", "0:2, [1, 3]")],
    "len(a)", "a.shape", "a.ndim", "a.size", "a.dtype", "a.itemsize", "a.nbytes", "a.strides", "a.T", "a.item(3)", "v[1].item()", "float(v[0])", "int(c[0])", "bool(c[0])", "a.tolist()",
    "h.itemsize", "t.T.shape", "v.T", "list(v)[0]", "a.numel()",
    # creation
    "ops.zeros((2, 3))", "ops.ones(3)", "ops.ones((2,), ms.int64)", "ops.full((2,), 1.5)", "ops.full((2,), 3)", "ops.fill(ms.int32, (2,), 7)", "ops.zeros_like(i)", "ops.ones_like(a)", "ops.full_like(a, 3)",
    "ops.arange(5)", "ops.arange(2, 9, 3)", "ops.arange(0.0, 1.0, 0.25)", "ops.linspace(0, 1, 5)", "ops.eye(3)", "ops.eye(2, 3, ms.int32)", "ops.logspace(0, 2, 3)",
    *[f"Tensor({what})" for what in ("1", "1.5", "True", "[1, 2]", "[1.5, 2]", "(1, 2.5)", "[True, False]", "np.arange(3)", "np.ones(2)", "[[1, 2], [3, 4]]", "1, ms.float32", "[1.7, -1.7], ms.int32", "np.float32(3)", "1j")],
    # methods
    *[f"a.{call}" for call in ("reshape(2, 6)", "reshape((2, 6))", "view(4, 3)", "transpose(1, 0)", "permute(1, 0)", "swapaxes(0, 1)", "squeeze()", "unsqueeze(0)", "expand_dims(1)", "flatten()",
                               "ravel()", "astype(ms.int32)", "astype('float64')", "to(ms.float16)", "float()", "int()", "long()", "half()", "bool()", "clamp(-0.5, 0.5)", "clip(-0.5, 0.5)", "abs()", "exp()",
                               "add(b)", "mul(b)", "sub(b)", "div(b)", "minimum(b)", "maximum(b)", "pow(2)", "square()", "broadcast_to((2, 3, 4))", "expand((2, 3, 4))", "repeat(2, 1)", "tile((2, 1))",
                               "split(2, 1)", "chunk(2)", "nonzero()", "cumsum(0)", "var()", "std()", "amax(0)", "amin(1)", "argsort()", "sort()", "topk(2)", "norm()", "matmul(m)", "contiguous()", "is_contiguous()",
                               "masked_fill(l, 0.0)", "gather_elements(1, Tensor(np.array([[0], [1], [2]])))", "index_select(0, Tensor(np.array([0])))", "fill_diagonal(1.0)", "sigmoid()", "tanh()", "softmax(0)", "log_softmax(0)",
                               "relu()", "sin()", "cos()", "floor()", "ceil()", "round()", "isnan()", "isfinite()", "eq(b)", "ne(b)", "gt(b)", "ge(b)", "lt(b)", "le(b)", "equal(b)", "greater(b)", "less(b)", "tril()", "triu()",
                               "flip((0,))", "roll(1, 0)", "unbind(0)", "diff()", "isclose(b)", "type_as(i)", "new_zeros((2,))", "new_ones((2,))", "numel()", "dim()", "where(l, b)", "mean(0)", "logsumexp(0)", "neg()", "sign()")],
    # products
    "a @ m", "ops.matmul(a, m)", "ops.matmul(t, m)", "ops.matmul(v, m)", "ops.matmul(t, v)", "ops.bmm(t, t.swapaxes(1, 2))", "ops.mm(a, m)", "ops.dot(a, m)", "ops.outer(v, v)", "ops.addmm(a @ m, a, m)", "ops.einsum('ij,jk->ik', a, m)",
    "ops.dense(a, b)", "ops.MatMul(transpose_b=True)(a, b)", "ops.BatchMatMul()(t, t.swapaxes(1, 2))", "ops.tensor_dot(a, m, 1)", "ops.inner(v, v)", "ops.baddbmm(t @ m, t, ops.stack((m, m)))",
    # neural networks
    "ops.leaky_relu(a, 0.1)", "ops.hardtanh(a)", "ops.gelu(a, 'tanh')", "ops.gelu(a, 'none')", "ops.prelu(a[None], Tensor(np.float32([0.25])))", "ops.glu(a)", "ops.hardshrink(a)", "ops.softshrink(a)", "ops.celu(a)", "ops.threshold(a, 0.1, 20)",
    "ops.layer_norm(a, (4,), ops.ones(4), ops.zeros(4))", "ops.mse_loss(a, b)", "ops.l1_loss(a, b, 'sum')", "ops.smooth_l1_loss(a, b)", "ops.huber_loss(a, b)",
    "ops.cross_entropy(a, c)", "ops.nll_loss(ops.log_softmax(a, 1), c)", "ops.binary_cross_entropy(ops.sigmoid(a), ops.sigmoid(b))", "ops.binary_cross_entropy_with_logits(a, b, ops.ones_like(a), ops.ones_like(a))",
    "ops.kl_div(a, p)", "ops.cosine_similarity(a, b, 1)", "ops.cdist(a, b)", "ops.max_pool2d(image, 2)", "ops.avg_pool2d(image, 2, 2)", "ops.conv2d(image, image[:, :, :3, :3])", "ops.bias_add(a, v)", "ops.one_hot(c, 5, Tensor(1.0), Tensor(0.0))",
    "ops.interpolate(image, (4, 4), mode='nearest')", "ops.normalize(a)", "ops.dropout(a, 0.0)", "ops.batch_norm(image, ops.zeros(3), ops.ones(3), ops.ones(3), ops.zeros(3))",
    *[f"nn.{layer}({x})" for layer, x in (("ReLU()", "a"), ("Sigmoid()", "a"), ("Tanh()", "a"), ("Softmax()", "a"), ("Softmax(0)", "a"), ("LogSoftmax()", "a"), ("GELU()", "a"), ("GELU(False)", "a"), ("LeakyReLU()", "a"), ("ELU()", "a"), ("SiLU()", "a"),
                                          ("Softplus()", "a"), ("Hardtanh()", "a"), ("HSwish()", "a"), ("HSigmoid()", "a"), ("ReLU6()", "a"), ("SeLU()", "a"), ("Mish()", "a"), ("Flatten()", "t"), ("Identity()", "a"), ("MaxPool2d(2, 2)", "image"), ("AvgPool2d(2, 2)", "image"),
                                          ("MaxPool2d(3, 2, 'same')", "image"), ("BatchNorm2d(3)", "image"), ("LayerNorm((4,))", "a"), ("GroupNorm(1, 3)", "image"), ("Dense(4, 2, 'ones', 'zeros')", "a"), ("Dense(4, 2, 'ones', 'zeros', activation='relu')", "a"),
                                          ("Conv2d(3, 2, 3, weight_init='ones')", "image"), ("Conv2d(3, 2, 3, pad_mode='valid', weight_init='ones')", "image"), ("Conv2d(3, 3, 3, group=3, pad_mode='pad', padding=1, weight_init='ones')", "image"),
                                          ("Conv1d(3, 2, 3, weight_init='ones')", "t"), ("Dropout(p=0.5)", "a"), ("MSELoss()", "a, b"), ("L1Loss()", "a, b"), ("SmoothL1Loss()", "a, b"), ("CrossEntropyLoss()", "a, c"), ("SoftmaxCrossEntropyWithLogits(True)", "a, c"),
                                          ("SoftmaxCrossEntropyWithLogits(True, 'mean')", "a, c"), ("BCELoss()", "ops.sigmoid(a), ops.sigmoid(b)"), ("Embedding(5, 2, embedding_table='ones')", "c"), ("PReLU()", "image"), ("NLLLoss()", "ops.log_softmax(a, 1), c"), ("Unflatten(1, (2, 2))", "a"), ("Softsign()", "a"), ("CosineEmbeddingLoss()", "a, b, ops.ones(3)"))],
    *[f"nn.probability.distribution.Bernoulli(0.3).{call}" for call in ("prob(l)", "log_prob(l)", "cdf(a)", "log_cdf(p)", "survival_function(l)", "log_survival(a - 9)", "mean()", "sd()", "var()", "entropy()",
                                                                       "kl_loss('Bernoulli', ops.sigmoid(v))", "cross_entropy('Bernoulli', ops.sigmoid(v))", "mean(ops.sigmoid(v))", "var(ops.sigmoid(v))", "sample().shape",
                                                                       "sample((2, 3)).dtype", "sample((2,), ops.sigmoid(v)).shape", "kl_loss('Normal', v)", "prob(3)")],
    *[f"nn.probability.distribution.Bernoulli({given})" for given in ("1.5", "0", "'a'", "0.3, -1", "0.3, dtype=ms.bool_")], "nn.probability.distribution.Bernoulli().mean()",
    # primitives
    *[f"ops.{call}" for call in ("Add()(a, b)", "Sub()(a, b)", "Mul()(a, b)", "Div()(a, b)", "RealDiv()(a, b)", "FloorDiv()(i, j)", "Pow()(p, 2.0)", "ReLU()(a)", "Exp()(a)", "Log()(p)", "Square()(a)", "Neg()(a)", "Abs()(a)", "Floor()(a)", "Round()(a)", "Sin()(a)", "Cos()(a)", "Tanh()(a)",
                                 "Sigmoid()(a)", "Equal()(a, a)", "Less()(a, b)", "LogicalXor()(l, l)", "AddN()([a, b])", "ReduceSum()(a)", "ReduceSum(keep_dims=True)(a, 0)", "ReduceMean()(a, 1)", "ReduceMax()(a, 0)", "Cast()(a, ms.int32)", "ExpandDims()(a, 0)", "Reshape()(a, (4, 3))", "Shape()(a)", "Softmax()(a)",
                                 "Gather()(a, c - 1, 0)", "Split(1, 2)(a)", "Unique()(c)", "BiasAdd()(a, v)", "Flatten()(t)", "Identity()(a)", "OneHot()(c, 5, Tensor(1.0), Tensor(0.0))", "Maximum()(a, b)", "Minimum()(a, b)", "Concat(1)((a, b))", "Zeros()((2, 3), ms.float32)", "NanToNum()(a)", "Slice()(a, (0, 1), (2, 2))", "Invert()(i)",
                                 "Conv2D(2, 3)(image, image[:2, :, :3, :3])", "MaxPool(2, 2)(image)", "SoftmaxCrossEntropyWithLogits()(a, ops.softmax(b))", "MatMul()(a, m)", "Transpose()(a, (1, 0))", "Tile()(a, (2, 1))", "Stack()((a, b))", "Squeeze()(a[None])", "ZerosLike()(a)", "OnesLike()(a)", "Select()(l, a, b)", "Sqrt()(p)", "Rsqrt()(p)",
                                 "ArgMaxWithValue()(a)", "Argmax(output_type=ms.int32)(a)", "TopK()(v, 2)", "StridedSlice()(a, (0, 0), (2, 2), (1, 1))", "GatherNd()(a, Tensor(np.array([[0, 1]])))", "Range()(Tensor(0), Tensor(5), Tensor(2))")],
    # mint and numpy
    *[f"mint.{call}" for call in ("add(a, b)", "sub(a, b)", "mul(a, b)", "div(a, b)", "clamp(a, -0.5, 0.5)", "matmul(a, m)", "sum(a)", "mean(a)", "max(a)", "min(a)", "exp(a)", "abs(a)", "sqrt(p)", "cat((a, b))", "stack((a, b))", "zeros((2,))", "ones((2,))", "arange(3)", "eye(3)", "where(l, a, b)", "nn.functional.relu(a)",
                                  "nn.functional.softmax(a, dim=1)", "nn.functional.gelu(a)", "nn.functional.silu(a)", "nn.functional.layer_norm(a, (4,))", "nn.functional.dropout(a, 0.0)", "full((2,), 1.5)", "split(a, 2)", "permute(a, (1, 0))", "transpose(a, 0, 1)", "flatten(a)", "topk(v, 2)", "argmax(a)", "cumsum(a, 0)", "isclose(a, b)", "nn.GroupNorm(1, 3)(image)",
                                  "nn.functional.linear(a, b)", "nn.functional.sigmoid(a)", "nn.functional.mse_loss(a, b)", "nn.functional.softplus(a)", "sort(a)", "unique(c)", "masked_select(a, l)", "linspace(0, 1, 5)", "narrow(a, 1, 0, 2)", "tile(a, (2, 1))", "any(l)", "all(l)", "equal(a, a)", "nonzero(l)", "full_like(a, 2)", "pow(p, 2)", "square(a)", "erf(a)", "round(a)")],
    *[f"mnp.{call}" for call in ("array([1, 2])", "array([[1.0, 2.0]])", "ones((2, 3))", "zeros(3)", "ones(2, ms.int32)", "arange(5)", "arange(0.0, 1.0, 0.25)", "linspace(0, 1, 5)", "eye(3)", "full((2,), 3)", "average(a)", "average(a, 0)", "mean(a)", "sum(a)", "sum(a, axis=0)", "max(a)", "min(a, 1)", "isclose(a, a)", "unique(c)", "add(a, b)", "subtract(a, b)",
                                 "multiply(a, b)", "divide(a, b)", "power(p, 2)", "matmul(a, m)", "dot(a, m)", "exp(a)", "log(p)", "sqrt(p)", "sin(a)", "tanh(a)", "maximum(a, b)", "where(l, a, b)", "concatenate((a, b))", "stack((a, b))", "transpose(a)", "reshape(a, (2, 6))", "squeeze(a[None])", "expand_dims(a, 0)", "std(a)", "var(a)", "cumsum(a)", "clip(a, -0.5, 0.5)",
                                 "argmax(a)", "tile(a, (2, 1))", "floor(a)", "broadcast_to(v, (2, 4))", "zeros_like(a)", "ones_like(i)", "diag(v)", "trace(a)", "outer(v, v)", "inner(v, v)", "tensordot(a, m, 1)", "logical_and(l, l)", "equal(a, a)", "isnan(a)", "count_nonzero(i)", "flip(a)", "roll(a, 1)", "sign(a)", "absolute(a)", "square(a)", "vstack((a, b))", "hstack((a, b))", "ravel(a)",
                                 "split(a, 3)", "repeat(a, 2)", "meshgrid(v, v)", "identity(2)", "tri(3)", "tril(a)", "prod(a)", "mod(i, j)", "floor_divide(i, j)", "arctan2(a, b)", "hypot(a, b)", "logspace(0, 2, 3)", "swapaxes(a, 0, 1)", "moveaxis(a, 0, 1)", "norm(a)", "nanmax(a)", "histogram(v)", "diff(v)", "bincount(c)", "cross(a[:, :3], b[:, :3])")],
    # errors
    *["a + b[:2]", "a[5]", "a[1.0]", "a[0, 0, 0]", "bool(a)", "float(a)", "int(a)", "ops.matmul(a, b)", "ops.reshape(a, (5, 5))", "ops.cat((a, v))", "ops.transpose(a, (0, 0))", "ops.add(a, 'x')", "ops.sum(a, 5)", "ops.softmax(a, 7)", "a.reshape(7)", "a.view(5)", "a.nothing",
      "a @ b", "ops.concat(a)", "nn.Dense(0, 1)", "nn.ReLU(3)", "nn.Dense(4, 2)(m)", "nn.Softmax()('x')", "Tensor('x')", "Tensor(None)", "Tensor()", "ops.split(a, 5, 7)", "ops.stack(())", "ops.stack((a, v))", "ops.gather(a, 0.5, 0)", "ops.expand_dims(a, 9)", "a + None", "a + 'x'", "a + [1, 2, 3]",
      "a + np.ones((3, 4), np.float32)", "ops.one_hot(a, 3)", "nn.Conv2d(3, 2, 3)(a)", "nn.MaxPool2d(2, 2, 'nothing')", "nn.Dropout(p=2.0)", "nn.CellList([1])", "ops.zeros('x')", "ops.full(3)", "ops.broadcast_to(a, (2, 2))", "a.item(99)", "a.item()", "len(a[0, 0])", "ms.Parameter('x')", "nn.SequentialCell(3)",
      "nn.LayerNorm(4)(a)", "nn.BatchNorm2d(3)(a)", "ops.pow('x', 2)", "ops.maximum(a, None)", "ms.Tensor(a, 'nothing')", "a.astype('nothing')", "ops.cast(a, 'nothing')", "ops.clamp(a)", "ops.where(l, a, m)", "ops.tile(a, 2.5)", "ops.argmax(a, 5)", "ops.cumsum(a, 4)"],
    *_EDGES, *_RECURRENT, *_TRANSFORMERS, *_NORMALIZATIONS, *_METRICS, *_OPTIMIZERS, *_SPACE, *_LOSSES, *_SPARSE, *_FURTHER, *_FURTHER_CELLS, *_FORMS, *_UPDATES,
]

"""ONNX Runtime on the written graph against Transformers on the same weights."""
from exporter.weights import checkpoint
from exporter.constructs.balancing import OUTPUT
from exporter.constructs.dropouts import in_evaluation
from exporter.errors import ExportError
from exporter.graph import with_weights_as_inputs

# Of float32 logits of order one; a wrong graph is off by far more.
TOLERANCE = 1e-3


def check_form(proto):
    """The rules of ONNX; the data files are not opened."""
    import onnx
    try:
        onnx.checker.check_model(with_weights_as_inputs(proto))
    except onnx.checker.ValidationError as error:
        raise ExportError(f"the graph breaks the rules of ONNX: {str(error).splitlines()[0]}") from None


def onnx_results(proto, folder, tensors, samples):
    """{output: value} of every sample in evaluation mode; each tensor of the checkpoint is raised to float32 by itself."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(with_weights_as_inputs(in_evaluation(proto)).SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    values = checkpoint.Values(folder)
    names = [t.name for t in proto.graph.initializer if t.external_data]
    weights = {name: values(tensors[name]).numpy() for name in names}
    given = {value.name for value in proto.graph.input}
    outputs = [value.name for value in proto.graph.output]
    try:
        return [dict(zip(outputs, session.run(outputs, {**weights, **{k: v.numpy() for k, v in sample.items() if k in given}})))
                for sample in samples]
    except Exception as error:  # of ONNX Runtime's many kinds
        raise ExportError(f"ONNX Runtime cannot run the graph on other sizes than those traced: {str(error).splitlines()[0]}") from None


def largest_difference(proto, folder, tensors, model, samples):
    """Of logits, over all samples and places that are no padding, and of the routers' loss; `model` is as Transformers loads the folder. A sample is what
    the model takes and what the graph takes, or a function of the model that gives the logits where ONNX Runtime cannot."""
    import torch
    graphs = [graph for _, graph in samples if not callable(graph)]
    by_graph = iter(onnx_results(proto, folder, tensors, graphs))
    worst = 0.0
    for inputs, graph in samples:
        with torch.no_grad():
            wanted = model(**inputs, use_cache=False)
            ours = {"logits": graph(model)} if callable(graph) else next(by_graph)
        keep = inputs["attention_mask"].bool()
        worst = max(worst, float((wanted.logits - torch.as_tensor(ours["logits"]))[keep].abs().max()))
        if OUTPUT in ours:
            worst = max(worst, abs(float(wanted.aux_loss) - float(ours[OUTPUT])))
    return worst

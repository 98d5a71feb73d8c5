"""Which graphs hold weights themselves: these have their names from the checkpoint."""
import os

import onnx


def weights_flags(folder, graph):
    """--weights for omnibal-compile and omnibal-opt, where a matrix lies in the graph."""
    tensors = onnx.load(os.path.join(folder, graph), load_external_data=False).graph.initializer
    inline = any(t.data_type == onnx.TensorProto.FLOAT and len(t.dims) >= 2 and
                 t.data_location != onnx.TensorProto.EXTERNAL for t in tensors)
    return [f"--weights={folder}/model.safetensors"] if inline else []

"""Networks stored as ONNX files, read without a library and rebuilt from layers of PyTorch."""

#include "runtime/executor/FunctionTable.h"

namespace omnibal::rt {

Result<FunctionTable> FunctionTable::prepare(const LoadedProgram &program,
                                             const std::vector<int32_t> &used, Backend &backend) {
  FunctionTable table;
  if (!program.kernels.empty())
    OMNIBAL_RETURN_IF_ERROR(backend.loadCode(program.kernels));
  table.functions.resize(program.program.functions.size());
  for (int32_t index : used) {
    Prepared &p = table.functions[index];
    if (p.function)
      continue;
    const Function &f = program.program.functions[index];
    p.function = &f;
    p.bases.resize(f.buffers.size());
    for (size_t c = 0; c < f.calls.size(); ++c) {
      const KernelCall &call = f.calls[c];
      BoundCall bound;
      bound.kernel = call.kernel;
      bound.attributes = call.attributes;
      bound.label = call.label;
      Call prepared;
      prepared.firstView = p.sources.size();
      prepared.views = call.operands.size();
      for (const auto &[name, view] : call.operands) {
        bound.operands.push_back(name);
        if (name == "cu_seqlens")
          bound.borders = bordersNamed(f.buffers[view.buffer].name);
        p.sources.push_back(&view);
      }
      auto wrong = [&](Status status) {
        return std::move(status).context("function \"" + f.name + "\", call " + std::to_string(c) +
                                         " (" + call.kernel + ")");
      };
      if (PartMove::isKernel(call.kernel)) {
        auto move = PartMove::read(bound);
        if (!move)
          return wrong(move.status());
        prepared.move = *std::move(move);
      } else {
        auto kernel = backend.createKernel(bound);
        if (!kernel)
          return wrong(kernel.status());
        prepared.kernel = *std::move(kernel);
      }
      p.calls.push_back(std::move(prepared));
    }
    p.views.resize(p.sources.size());
    p.byteOffsets.resize(p.sources.size());
  }
  return table;
}

void FunctionTable::evaluate(Prepared &p, const SymbolValues &symbols) {
  for (size_t i = 0; i < p.sources.size(); ++i) {
    const View &source = *p.sources[i];
    TensorView &view = p.views[i];
    view.dtype = p.function->buffers[source.buffer].dtype;
    view.rank = static_cast<int>(source.shape.size());
    for (int d = 0; d < view.rank; ++d) {
      view.shape[d] = source.shape[d].evaluate(symbols);
      view.strides[d] = source.strides[d].evaluate(symbols);
    }
    p.byteOffsets[i] = source.offset.evaluate(symbols) * byteSize(view.dtype);
  }
  p.at = symbols;
}

Status FunctionTable::perform(const Call &call, std::span<const TensorView> views,
                              const SymbolValues &symbols, KeptKeys::Rows *kept, ThreadPool &pool,
                              Backend &backend) {
  if (kept)
    return call.kernel->runBehind(*kept, views, symbols, pool);
  if (!call.move)
    return call.kernel->run(views, symbols, pool);
  if (meeting && !isAlone)
    return meeting->exchange(*call.move, views, symbols, parts);
  const TensorView &result = views[static_cast<size_t>(call.move->dst)];
  return backend.zero(result.data, result.elements() * byteSize(result.dtype));
}

Status FunctionTable::run(int32_t function, std::span<std::byte *const> formals,
                          std::byte *workspace, const SymbolValues &symbols, const Kept &kept,
                          ThreadPool &pool, Backend &backend, Trace *trace) {
  Prepared &p = functions[function];
  if (p.at != symbols)
    evaluate(p, symbols);
  const std::vector<Buffer> &buffers = p.function->buffers;
  for (size_t b = 0; b < formals.size(); ++b)
    p.bases[b] = formals[b];
  for (size_t b = formals.size(); b < buffers.size(); ++b)
    p.bases[b] = workspace + buffers[b].offset;
  for (size_t i = 0; i < p.views.size(); ++i)
    p.views[i].data = p.bases[p.sources[i]->buffer] + p.byteOffsets[i];
  for (size_t c = 0; c < p.calls.size(); ++c) {
    const Call &call = p.calls[c];
    Event begin = trace ? backend.recordEvent() : Event();
    KeptKeys::Rows *rows = kept.keys && call.kernel && call.kernel->keepsKeys()
                               ? &kept.keys->of({kept.chunk, kept.layer, c}, kept.tokens)
                               : nullptr;
    Status status =
        perform(call, {p.views.data() + call.firstView, call.views}, symbols, rows, pool, backend);
    if (trace)
      trace->kernel(p.function->calls[c], {p.views.data() + call.firstView, call.views}, begin,
                    backend.recordEvent());
    if (!status) {
      const KernelCall &source = p.function->calls[c];
      return std::move(status).context("function \"" + p.function->name + "\", call " +
                                       std::to_string(c) + " (" + source.kernel + ", " +
                                       source.label + ")");
    }
  }
  return Status::ok();
}

} // namespace omnibal::rt

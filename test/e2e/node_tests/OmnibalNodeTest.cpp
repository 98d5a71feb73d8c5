//===- OmnibalNodeTest.cpp - ONNX node tests: importer, interpreter, host backend --------===//
//
//     omnibal-node-test CASES.json
//
// Prints one line a case and engine, "NAME <tab> ENGINE <tab> VERDICT <tab> MESSAGE", each as soon
// as it is known: run_node_tests.py starts it again after the case in which it died. Verdicts:
// pass, wrong (another result), import, lower, run (the step that failed).
//
//===------------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "mlir/IR/MLIRContext.h"
#include "test/e2e/node_tests/HostRun.h"
#include "test/e2e/node_tests/NodeCase.h"
#include <cstdio>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::test;

namespace {

/// Collects what a step says; the first error is the one that counts.
class Messages {
public:
  explicit Messages(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && first.empty())
            first = diagnostic.str();
          return success();
        }) {}
  std::string first;

private:
  ScopedDiagnosticHandler handler;
};

void report(const NodeCase &node, const char *engine, const char *verdict, std::string message) {
  for (char &c : message)
    if (c == '\n' || c == '\t')
      c = ' ';
  std::printf("%s\t%s\t%s\t%s\n", node.name.c_str(), engine, verdict, message.c_str());
  std::fflush(stdout);
}

/// Compares all results; reports.
void judge(const NodeCase &node, const char *engine, llvm::ArrayRef<HostTensor> got,
           llvm::ArrayRef<HostTensor> wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    if (std::string text = difference(node, got[i], wanted[i]); !text.empty())
      return report(node, engine, "wrong", "output " + std::to_string(i) + ": " + text);
  report(node, engine, "pass", "");
}

struct Pending {
  const NodeCase *node;
  size_t graph;
  LoadedCase loaded;
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: omnibal-node-test CASES.json\n");
    return 2;
  }
  std::vector<NodeCase> cases = readCases(argv[1]);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  HostRuns host(context);
  std::vector<Pending> pending;
  for (const NodeCase &node : cases) {
    Messages messages(context);
    report(node, "-", "start", "");
    FailureOr<LoadedCase> loaded = loadCase(node, context);
    if (failed(loaded)) {
      report(node, "interpreter", "import", messages.first);
      continue;
    }
    auto main = loaded->module->lookupSymbol<func::FuncOp>("main");
    if (main.getNumArguments() != loaded->inputs.size() ||
        main.getNumResults() != loaded->outputs.size()) {
      report(node, "interpreter", "run", "other numbers of inputs or outputs than the case has");
      continue;
    }
    Interpreter interpreter{InterpreterOptions{}};
    auto results = interpreter.run(main, loaded->inputs);
    if (failed(results)) {
      report(node, "interpreter", "run", messages.first);
      continue;
    }
    judge(node, "interpreter", *results, loaded->outputs);
    if (!node.host)
      continue;
    FailureOr<size_t> graph = host.add(*loaded->module);
    if (failed(graph))
      report(node, "host", "lower", messages.first);
    else
      pending.push_back({&node, *graph, std::move(*loaded)});
  }
  if (pending.empty())
    return 0;
  if (std::string problem = host.compile(); !problem.empty()) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    return 1;
  }
  for (Pending &ready : pending) {
    report(*ready.node, "-", "host-start", "");
    std::vector<HostTensor> results = ready.loaded.outputs;
    std::string problem = host.run(ready.graph, ready.loaded.inputs, results);
    if (!problem.empty())
      report(*ready.node, "host", "run", problem);
    else
      judge(*ready.node, "host", results, ready.loaded.outputs);
  }
  return 0;
}

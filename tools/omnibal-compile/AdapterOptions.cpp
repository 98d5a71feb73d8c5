#include "tools/omnibal-compile/AdapterOptions.h"
#include "tools/NumberChecks.h"
#include "tools/WordChecks.h"
#include <cmath>

namespace omnibal::compile {

void addAdapterOptions(CLI::App &app, Options &o) {
  app.add_option("--lora", o.lora,
                 "regular expression over names of weights (with or without .weight) of linear "
                 "layers that get low-rank adapters; nothing else trains");
  app.add_option("--lora-rank", o.loraRank, "rank of the adapters")
      ->capture_default_str()
      ->check(rt::wholeNumber(1, int64_t{1} << 20));
  app.add_option("--lora-alpha", o.loraAlpha, "the adapters' scale is this / rank")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--rslora", o.rslora, "the adapters' scale is alpha / sqrt(rank)");
  app.add_flag(
      "--dora", o.dora,
      "adapters train the norm of each output's weights apart from their direction (DoRA)");
  app.add_option("--lora-dropout", o.loraDropout,
                 "share of the adapters' input that training drops, in [0, 1)")
      ->capture_default_str()
      ->check(rt::number(0, false, std::nextafter(1.0, 0.0)));
  app.add_option("--modules-to-save", o.modulesToSave,
                 "with --lora: regular expression over parameter names whose modules train beside "
                 "the adapters, all of their parameters");
  app.add_option("--quantize-frozen", o.quantizeFrozen,
                 "store the frozen weights of linear layers in int8 (a scale for each row) or nf4 "
                 "(4 bits, a scale for 64 numbers): those below adapters, or of --quantize-match")
      ->check(rt::word({"int8", "nf4"}));
  app.add_option("--quantize-match", o.quantizeMatch,
                 "with --quantize-frozen: regular expression over names of weights (with or "
                 "without .weight) of the linear layers whose frozen weights are quantized");
}

std::string checkQuantizeOptions(const CLI::App &app, const Options &options) {
  if (options.quantizeFrozen.empty())
    return app.count("--quantize-match") > 0 ? "--quantize-match needs --quantize-frozen" : "";
  if (options.dividesStages())
    return "--quantize-frozen does not go together with --model-parallel whose parts divide "
           "weights; --layouts none lets all parts do the same";
  if (app.count("--quantize-match") > 0 && options.quantizeMatch.empty())
    return "--quantize-match is empty; leave it out to quantize the weights below the adapters";
  if (options.quantizeMatch.empty() && options.lora.empty())
    return "--quantize-frozen needs --lora, below whose adapters weights are quantized, or "
           "--quantize-match to say which frozen weights are";
  return "";
}

std::string checkAdapterOptions(const CLI::App &app, const Options &options) {
  if (app.count("--lora") > 0) {
    if (options.lora.empty())
      return "--lora is empty; leave it out to train without adapters";
    for (const char *flag : {"--freeze", "--freeze-match"})
      if (app.count(flag) > 0)
        return std::string(flag) + " goes without --lora, beside which nothing trains but what "
                                   "--modules-to-save names";
    if (options.dora && options.loraDropout > 0)
      return "--dora goes without --lora-dropout";
    return "";
  }
  for (const char *flag :
       {"--lora-rank", "--lora-alpha", "--rslora", "--dora", "--lora-dropout", "--modules-to-save"})
    if (app.count(flag) > 0)
      return std::string(flag) + " needs --lora";
  return "";
}

} // namespace omnibal::compile

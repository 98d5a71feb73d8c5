#include "tools/omnibal-compile/AdapterOptions.h"
#include "tools/NumberChecks.h"

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
  CLI::Validator none(
      [](std::string &value) {
        double dropout = 1;
        return CLI::detail::lexical_cast(value, dropout) && dropout == 0
                   ? std::string()
                   : "adapters are trained without dropout, so only 0 is taken; leave it out";
      },
      "0");
  app.add_option_function<double>(
         "--lora-dropout", [](double) {}, "dropout of the adapters' input")
      ->default_str("0")
      ->check(none);
  app.add_option("--modules-to-save", o.modulesToSave,
                 "with --lora: regular expression over parameter names whose modules train beside "
                 "the adapters, all of their parameters");
}

std::string checkAdapterOptions(const CLI::App &app, const Options &options) {
  if (app.count("--lora") > 0) {
    if (options.lora.empty())
      return "--lora is empty; leave it out to train without adapters";
    for (const char *flag : {"--freeze", "--freeze-match"})
      if (app.count(flag) > 0)
        return std::string(flag) + " goes without --lora, beside which nothing trains but what "
                                   "--modules-to-save names";
    return "";
  }
  for (const char *flag :
       {"--lora-rank", "--lora-alpha", "--rslora", "--lora-dropout", "--modules-to-save"})
    if (app.count(flag) > 0)
      return std::string(flag) + " needs --lora";
  return "";
}

} // namespace omnibal::compile

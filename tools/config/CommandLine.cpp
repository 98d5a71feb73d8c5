#include "tools/config/CommandLine.h"
#include "tools/config/ApplyConfig.h"
#include "tools/config/ConfigText.h"
#include <iostream>

namespace omnibal::config {
namespace {

constexpr const char *printFlag = "--print-config";

std::string messageOf(const CLI::App &app, const std::string &problem) {
  return app.get_name() + ": " + problem + "\nRun with --help for more information.\n";
}

} // namespace

void addConfigOptions(CLI::App &app) {
  const std::string table = "[" + tableOf(app) + "]";
  app.add_option_function<std::string>(
         "--config",
         [&app](const std::string &path) {
           if (app.get_help_ptr() && app.get_help_ptr()->count() > 0)
             return;
           const rt::Result<ConfigFile> file = readConfig(path);
           if (!file)
             throw CLI::FileError("--config: " + file.status().message());
           applyConfig(app, *file);
         },
         "TOML file of options, the tool's own or one for all tools with a table " + table +
             "; what the command line says goes before it")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("FILE")
      ->configurable(false);
  app.add_flag(printFlag)
      ->description("Print the options as they are set, as a file for --config, and stop")
      ->configurable(false);
  app.failure_message([](const CLI::App *failed, const CLI::Error &error) {
    return messageOf(*failed, error.what());
  });
}

bool parseCommandLine(CLI::App &app, int argc, char **argv, int &exitCode) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    exitCode = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  if (app.count(printFlag) == 0)
    return true;
  std::cout << configText(app) << std::flush;
  exitCode = std::cout ? 0 : 1;
  return false;
}

bool refuse(const CLI::App &app, const std::string &problem, int &exitCode) {
  std::cerr << messageOf(app, problem) << std::flush;
  exitCode = 2;
  return false;
}

} // namespace omnibal::config

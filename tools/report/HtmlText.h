//===- HtmlText.h - Parts that all pages have ------------------------------------------------===//
#ifndef TOOLS_REPORT_HTMLTEXT_H
#define TOOLS_REPORT_HTMLTEXT_H

#include <string>

namespace omnibal::report {

/// As text between tags or in an attribute.
inline std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  return result;
}

/// The page up to its heading; `styles` are whole style elements.
inline std::string beginPage(const std::string &title, const std::string &styles,
                             const std::string &heading) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
         "name=\"viewport\" content=\"width=device-width\">\n<title>omnibal: " +
         escaped(title) + "</title>" + styles + "</head><body>\n<h1>" + escaped(heading) +
         "</h1>\n";
}
inline std::string endPage() { return "</body></html>\n"; }

/// A number that stands out, and what it is.
inline std::string card(const std::string &value, const std::string &what) {
  return "<div class=\"card\"><b>" + value + "</b><span>" + what + "</span></div>\n";
}

} // namespace omnibal::report
#endif // TOOLS_REPORT_HTMLTEXT_H

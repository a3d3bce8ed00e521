// Escaping, see html_text.h.
#include "properties/reports/html_text.h"

#include "properties/reports/plain_text.h"

namespace kvconform {

std::string html_text(std::string_view raw) {
  std::string out;
  for (char c : plain_text(raw)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace kvconform

// Brackets, and which newlines are words: what archir/language/syntax/layout.py decides behind lark's lexer.
//
// Of a run of newlines, blank lines and comments the last newline counts; none before `|>`, before `}`, at the end of the
// file or inside of `(` and `[`. (Those behind `{` and `,` and at the start of the file are optional in the grammar.)

#include "tree_sitter/alloc.h"
#include "tree_sitter/parser.h"

#include <string.h>

enum Token { NEWLINE, NO_NEWLINE, PAREN, BRACKET, BRACE, END_PAREN, END_BRACKET, END_BRACE };

// Deeper brackets are refused, as by archir (A0104).
#define MOST_NESTING 100

typedef struct {
  unsigned char depth;
  unsigned char open[MOST_NESTING];
} Scanner;

void *tree_sitter_arch_external_scanner_create(void) { return ts_calloc(1, sizeof(Scanner)); }

void tree_sitter_arch_external_scanner_destroy(void *payload) { ts_free(payload); }

unsigned tree_sitter_arch_external_scanner_serialize(void *payload, char *buffer) {
  Scanner *scanner = payload;
  memcpy(buffer, scanner->open, scanner->depth);
  return scanner->depth;
}

void tree_sitter_arch_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  Scanner *scanner = payload;
  scanner->depth = length;
  if (length) memcpy(scanner->open, buffer, length);
}

static void skip_spaces(TSLexer *lexer) {
  while (lexer->lookahead == ' ' || lexer->lookahead == '\t') lexer->advance(lexer, true);
}

// Whether what stands behind a newline makes it a word; the lexer is moved on to find out.
static bool separates(TSLexer *lexer) {
  skip_spaces(lexer);
  switch (lexer->lookahead) {
    case '#':   // a line without words: its own newline may be a word
    case '\r':
    case '\n':
    case '}':
      return false;
    case '|':
      lexer->advance(lexer, false);
      return lexer->lookahead != '>';
    default:
      return !lexer->eof(lexer);
  }
}

static bool scan_newline(Scanner *scanner, TSLexer *lexer, const bool *valid) {
  if (lexer->lookahead == '\r') lexer->advance(lexer, false);
  if (lexer->lookahead != '\n') return false;
  lexer->advance(lexer, false);
  lexer->mark_end(lexer);
  bool inside = scanner->depth && scanner->open[scanner->depth - 1] != BRACE;
  lexer->result_symbol = !inside && separates(lexer) ? NEWLINE : NO_NEWLINE;
  return valid[lexer->result_symbol];
}

static bool scan_opening(Scanner *scanner, TSLexer *lexer, const bool *valid, enum Token bracket) {
  if (!valid[bracket] || scanner->depth == MOST_NESTING) return false;
  scanner->open[scanner->depth++] = bracket;
  lexer->advance(lexer, false);
  lexer->result_symbol = bracket;
  return true;
}

static bool scan_closing(Scanner *scanner, TSLexer *lexer, const bool *valid, enum Token opening, enum Token bracket) {
  if (!valid[bracket]) return false;
  for (unsigned depth = scanner->depth; depth; depth--) {
    if (scanner->open[depth - 1] == opening) {  // what is open inside of it was not closed: an error, which ends here
      scanner->depth = depth - 1;
      break;
    }
  }
  lexer->advance(lexer, false);
  lexer->result_symbol = bracket;
  return true;
}

bool tree_sitter_arch_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  skip_spaces(lexer);
  switch (lexer->lookahead) {
    case '\r':
    case '\n':
      return scan_newline(payload, lexer, valid);
    case '(':
      return scan_opening(payload, lexer, valid, PAREN);
    case '[':
      return scan_opening(payload, lexer, valid, BRACKET);
    case '{':
      return scan_opening(payload, lexer, valid, BRACE);
    case ')':
      return scan_closing(payload, lexer, valid, PAREN, END_PAREN);
    case ']':
      return scan_closing(payload, lexer, valid, BRACKET, END_BRACKET);
    case '}':
      return scan_closing(payload, lexer, valid, BRACE, END_BRACE);
    default:
      return false;
  }
}

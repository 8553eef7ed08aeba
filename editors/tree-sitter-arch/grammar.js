/**
 * The language of archir, rule by rule as `grammar/archir_grammar/arch.lark` has it: what one accepts, the other does.
 *
 * Brackets and newlines are the scanner's (src/scanner.c), since newlines mean nothing inside `(` and `[`.
 * Chains (`a + b + c`, `x |> f |> g`) are flat, as there.
 */

/// <reference types="tree-sitter-cli/dsl" />

const separated = (separator, rule) => seq(rule, repeat(seq(separator, rule)));
const listed = ($, rule) => optional(seq(separated($._comma, rule), optional($._comma)));
const chained = ($, part, operator) => seq(part, repeat1(seq(field("operator", operator), part)));

module.exports = grammar({
  name: "arch",

  word: ($) => $.name,

  externals: ($) => [$._newline, $._no_newline, $._paren, $._bracket, $._brace, $._end_paren, $._end_bracket, $._end_brace],

  extras: ($) => [/[ \t]/, $.comment, $._no_newline],

  supertypes: ($) => [$._item, $._statement],

  rules: {
    source_file: ($) => seq(optional($._newline), optional(seq(separated($._newline, $._item), optional($._newline)))),

    _item: ($) => choice($.import_library, $.import_file, $.const, $.block, $.cell, $.net),
    import_library: ($) => seq("import", field("path", separated(".", $.name)), optional(seq("as", field("alias", $.name)))),
    import_file: ($) => seq("import", field("path", $.string), optional(seq("as", field("alias", $.name)))),
    const: ($) => seq("const", field("name", $.name), "=", field("value", $._expr)),
    block: ($) => seq(optional("own"), "block", field("name", $.name), field("params", $.params), field("body", $.body)),
    cell: ($) => seq(optional("own"), "cell", field("name", $.name), field("params", $.params), field("body", $.body)),
    net: ($) => seq("net", field("name", $.name), optional(field("params", $.params)), field("body", $.body)),
    params: ($) => seq(alias($._paren, "("), listed($, $.param), alias($._end_paren, ")")),
    param: ($) => seq(field("name", $.name), optional(seq("=", field("default", $._expr)))),

    body: ($) => seq($._open_brace, optional(separated($._newline, $._statement)), alias($._end_brace, "}")),
    _statement: ($) =>
      choice($.input, $.output, $.return, $.assign, $.for_loop, $.repeat, $.if, $.require),
    input: ($) => seq("input", field("name", $.name), ":", field("type", $.tensor_type)),
    tensor_type: ($) =>
      seq(field("dtype", $.name), alias($._bracket, "["), listed($, $._expr), alias($._end_bracket, "]")),
    output: ($) => seq("output", field("name", $.name), optional(seq("=", field("value", $._expr)))),
    return: ($) => seq("return", separated($._comma, $._expr)),
    assign: ($) => seq(field("targets", $.targets), "=", field("value", $._expr)),
    targets: ($) => separated($._comma, $.name),
    for_loop: ($) => seq("for", field("targets", $.targets), "in", field("items", $._expr), field("body", $.body)),
    repeat: ($) =>
      seq("repeat", field("times", $._expr), optional(seq("as", field("index", $.name))), field("body", $.body)),
    if: ($) =>
      seq(
        "if", field("condition", $._expr), field("then", $.body),
        optional(seq("else", field("else", choice($.body, $.if)))),
      ),
    require: ($) => seq("require", field("condition", $._expr)),

    _expr: ($) => choice($._ternary, $.choose_subset),
    _ternary: ($) => choice($._pipe, $.if_else),
    if_else: ($) => prec(1, seq(field("then", $._pipe), "if", field("condition", $._pipe), "else", field("else", $._ternary))),
    _pipe: ($) => choice($._or, $.pipe),
    pipe: ($) => seq($._or, repeat1(seq("|>", field("target", $._postfix)))),
    _or: ($) => choice($._and, $.any_of),
    any_of: ($) => chained($, $._and, "or"),
    _and: ($) => choice($._not, $.all_of),
    all_of: ($) => chained($, $._not, "and"),
    _not: ($) => choice($._comparison, $.not),
    not: ($) => seq("not", $._not),
    _comparison: ($) => choice($._interval, $.comparison),
    comparison: ($) =>
      chained($, $._interval, choice("==", "!=", "<", "<=", ">", ">=", "in", seq("not", "in"))),
    _interval: ($) => choice($._sum, $.interval),
    interval: ($) => seq($._sum, "..", $._sum),
    _sum: ($) => choice($._product, alias($.sum, $.chain)),
    sum: ($) => chained($, $._product, choice("+", "-")),
    _product: ($) => choice($._unary, alias($.product, $.chain)),
    product: ($) => chained($, $._unary, choice("*", "//", "/", "%")),
    _unary: ($) => choice($._power, $.signed),
    signed: ($) => seq(field("operator", choice("+", "-")), $._unary),
    _power: ($) => choice($._postfix, $.power),
    power: ($) => seq($._postfix, field("operator", "**"), $._unary),

    _postfix: ($) => choice($._atom, $.call, $.attribute, $.index, $.part),
    call: ($) => prec(1, seq(field("callee", $._postfix), field("arguments", $.arguments))),
    arguments: ($) => seq(alias($._paren, "("), listed($, $.argument), alias($._end_paren, ")")),
    argument: ($) => seq(optional(seq(field("name", $.name), "=")), field("value", $._expr)),
    attribute: ($) => prec(1, seq(field("of", $._postfix), ".", field("name", $.name))),
    index: ($) =>
      prec(1, seq(field("of", $._postfix), alias($._bracket, "["), field("at", $._expr), alias($._end_bracket, "]"))),
    part: ($) =>
      prec(1, seq(
        field("of", $._postfix), alias($._bracket, "["),
        optional(field("from", $._expr)), ":", optional(field("to", $._expr)), alias($._end_bracket, "]"),
      )),

    _atom: ($) =>
      choice(
        $.name, $.integer, $.decimal, $.string, $.true, $.false, $.none, $.group, $.sequence, $.comprehension,
        $.choose_value, $.choose_one, $.match, $.own_call,
      ),
    true: (_) => "true",
    false: (_) => "false",
    none: (_) => "none",
    group: ($) => seq(alias($._paren, "("), $._expr, alias($._end_paren, ")")),
    sequence: ($) =>
      choice(
        seq(alias($._paren, "("), alias($._end_paren, ")")),
        seq(
          alias($._paren, "("), $._expr, $._comma,
          optional(seq(separated($._comma, $._expr), optional($._comma))), alias($._end_paren, ")"),
        ),
        seq(alias($._bracket, "["), listed($, $._expr), alias($._end_bracket, "]")),
      ),
    comprehension: ($) =>
      seq(
        alias($._bracket, "["), field("each", $._expr), repeat1(choice($.comprehension_for, $.comprehension_if)),
        alias($._end_bracket, "]"),
      ),
    comprehension_for: ($) => seq("for", field("targets", $.targets), "in", field("items", $._or)),
    comprehension_if: ($) => seq("if", field("condition", $._or)),
    own_call: ($) => seq("own", $._postfix),

    choose_value: ($) => seq($._choose, alias($._paren, "("), listed($, $._expr), alias($._end_paren, ")")),
    choose_one: ($) =>
      seq(
        $._choose, $._open_brace,
        optional(seq(separated($._separator, $.alternative), optional($._comma))), alias($._end_brace, "}"),
      ),
    alternative: ($) => seq(field("name", $.name), ":", field("value", $._expr)),
    choose_subset: ($) =>
      seq(
        $._choose, field("count", choice($.integer, $.name)), "of", field("items", $._postfix),
        optional(seq("where", field("where", $._or))),
      ),
    _choose: ($) => prec.right(seq("choose", optional(field("label", $.name)), repeat($.tag))),

    match: ($) =>
      seq(
        "match", field("subject", $._expr), $._open_brace,
        optional(seq(separated($._separator, $.arm), optional($._comma))), alias($._end_brace, "}"),
      ),
    arm: ($) => seq(field("pattern", choice("else", $.pattern)), "=>", field("value", $._expr)),
    pattern: ($) => separated("|", $._or),

    // Newlines before `|>` and `}`, inside of `(` and `[`, and before the first word are the scanner's to drop.
    _comma: ($) => seq(",", optional($._newline)),
    _separator: ($) => choice($._comma, $._newline),
    _open_brace: ($) => seq(alias($._brace, "{"), optional($._newline)),

    name: (_) => /[A-Za-z_][A-Za-z0-9_]*/,
    tag: (_) => /@[A-Za-z_][A-Za-z0-9_]*/,
    decimal: (_) => token(choice(/[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?([KMG]|[num]s)?/, /[0-9]+[eE][+-]?[0-9]+/)),
    integer: (_) => /[0-9][0-9_]*([KMG]|[num]s)?/,
    string: (_) => /"[^"\\\r\n]*"/,
    comment: (_) => /#[^\r\n]*/,
  },
});

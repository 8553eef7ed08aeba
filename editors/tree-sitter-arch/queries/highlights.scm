; No name is caught twice, so that it makes no difference whether an editor takes the first or the last pattern.

(comment) @comment
(string) @string
(integer) @number
(decimal) @number.float
[(true) (false)] @boolean
(none) @constant.builtin
(tag) @attribute

["import" "as"] @keyword.import
["const" "block" "cell" "net" "own" "input" "output" "require"] @keyword
["choose" "of" "where" "match"] @keyword
["if" "else"] @keyword.conditional
["for" "in" "repeat"] @keyword.repeat
"return" @keyword.return
["and" "or" "not"] @keyword.operator

["|>" "=" "=>" "|" ".." "==" "!=" "<" "<=" ">" ">=" "+" "-" "*" "/" "//" "%" "**"] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," "." ":"] @punctuation.delimiter

(import_library path: (name) @module)
(import_library alias: (name) @module)
(import_file alias: (name) @module)
(block name: (name) @function)
(cell name: (name) @function)
(net name: (name) @type)
(const name: (name) @constant)
(param name: (name) @variable.parameter)
(input name: (name) @variable.parameter)
(output name: (name) @variable.parameter)
(tensor_type dtype: (name) @type.builtin)
(targets (name) @variable)

(call callee: (name) @function.call)
(pipe target: (name) @function.call)
(attribute name: (name) @property)
(argument name: (name) @variable.parameter)
(choose_value label: (name) @label)
(choose_one label: (name) @label)
(choose_subset label: (name) @label)
(alternative name: (name) @label)

[(source_file) (block) (cell) (net) (body) (comprehension)] @local.scope

(import_library alias: (name) @local.definition.import)
(import_file alias: (name) @local.definition.import)
(const name: (name) @local.definition.constant)
(block name: (name) @local.definition.function)
(cell name: (name) @local.definition.function)
(net name: (name) @local.definition.type)
(param name: (name) @local.definition.parameter)
(input name: (name) @local.definition.parameter)
(targets (name) @local.definition.var)
(repeat index: (name) @local.definition.var)

(name) @local.reference

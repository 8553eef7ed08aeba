// Programs of the repository that the page offers as examples; the first one is shown at the start.

import autoformer from "../../../examples/autoformer/autoformer.arch";
import gpt from "../../../examples/zoo/gpt.arch";
import nas_bench_201 from "../../../examples/nas_bench_201/nas_bench_201.arch";
import nats_size from "../../../examples/zoo/nats_size.arch";

export const EXAMPLES = { nas_bench_201, autoformer, gpt, nats_size };

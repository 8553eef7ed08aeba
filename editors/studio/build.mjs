// Bundles the page's script, and writes down the licences of what is in it: npm ci && npm run build
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundledLicences } from "../bundled_licences.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const page = join(here, "../../archir/tools/studio/page");

const made = await build({
  entryPoints: [join(here, "src/main.js")],
  outfile: join(page, "studio.js"),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  loader: { ".arch": "text" },
});

const [packages, licences] = bundledLicences(made.metafile, here);
const head = "studio.js is bundled from editors/studio (Apache-2.0, as archir) and these packages:\n\n";
writeFileSync(join(page, "LICENSES.txt"), head + licences);
console.log(`${packages.length} packages, ${readFileSync(join(page, "studio.js")).length} bytes`);

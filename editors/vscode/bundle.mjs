// Bundles the extension into one file, and writes down the licences of what is in it: npm run vscode:prepublish
import { build } from "esbuild";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundledLicences } from "../bundled_licences.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const made = await build({
  absWorkingDir: here,
  entryPoints: ["src/extension.js"],
  outfile: "dist/extension.js",
  bundle: true,
  minify: true,
  platform: "node",
  target: "node20",
  external: ["vscode"],
  legalComments: "none",
  metafile: true,
});
const [packages, licences] = bundledLicences(made.metafile, here);
const head = "extension.js is bundled from src (Apache-2.0, as archir) and these packages:\n\n";
writeFileSync(join(here, "dist", "LICENSES.txt"), head + licences);
console.log(`bundled ${packages.length} packages: ${packages.join(", ")}`);

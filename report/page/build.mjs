// SPDX-License-Identifier: Apache-2.0
// node build.mjs TOOLS [PAGE]: makes page.html (or PAGE) of source/, with the esbuild in
// TOOLS/node_modules.  Script and style sheet are inlined, and a content security policy allows
// these two by their hashes and nothing else.  The hash of the sources goes along, so that a test
// can tell when the page was not built anew after a change.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const { build } = createRequire(resolve(process.argv[2], "package.json"))("esbuild");

const here = dirname(fileURLToPath(import.meta.url));
const source = join(here, "source");

async function bundle(entry, change = (text) => text) {
  const contents = change(readFileSync(join(source, entry), "utf8"));
  const result = await build({
    stdin: { contents, resolveDir: source, loader: entry.endsWith(".css") ? "css" : "js" }, bundle: true, minify: true, write: false, format: "iife",
    target: ["chrome103", "firefox113", "safari16.4"], charset: "ascii", legalComments: "none",
  });
  return result.outputFiles[0].text.trim();
}

// FNV-1a of 64 bits, as hash_text in sim/text.h, over name, zero, content, zero of each source.
function hashOfSources() {
  let hash = 0xcbf29ce484222325n;
  const add = (bytes) => {
    for (const b of bytes) hash = ((hash ^ BigInt(b)) * 0x100000001b3n) & 0xffffffffffffffffn;
  };
  for (const name of readdirSync(source).sort()) {
    add(Buffer.from(name + "\0"));
    add(readFileSync(join(source, name)));
    add([0]);
  }
  return hash.toString(16).padStart(16, "0");
}

const script = await bundle("main.js");
// The dark theme is chosen by the system or by the reader: its colours stand in both places.
const dark = readFileSync(join(source, "dark.css"), "utf8").replace(/\/\*.*?\*\//gs, "");
const style = await bundle("style.css", (text) => text.replaceAll("dark: colours;", dark));
if (/<\/(script|style)/i.test(script + style)) throw new Error("an end tag inside script or style");
const sha = (text) => "'sha256-" + createHash("sha256").update(text).digest("base64") + "'";
const policy = `default-src 'none'; script-src ${sha(script)}; style-src ${sha(style)}; ` +
  "img-src data:; base-uri 'none'; form-action 'none'";
const page = readFileSync(join(source, "template.html"), "utf8")
  .replace("{policy}", () => policy)
  .replace("{sources}", () => hashOfSources())
  .replace("{style}", () => style)
  .replace("{script}", () => script);
writeFileSync(process.argv[3] ?? join(here, "page.html"), page);
console.log(`page.html: ${page.length} bytes, script ${script.length}, style ${style.length}`);

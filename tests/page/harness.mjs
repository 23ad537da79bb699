// SPDX-License-Identifier: Apache-2.0
// What tests of reports in browsers have in common: a folder to work in, the command, a browser, pages.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";

export const tools = createRequire(resolve(process.env.PAGE_TOOLS, "package.json"));
export const here = dirname(fileURLToPath(import.meta.url));
export const examples = resolve(here, "../../scenarios/examples");
export const place = mkdtempSync(join(tmpdir(), "stepcast-page-"));
export const run = (...args) =>
  execFileSync(process.env.STEPCAST, args, { cwd: place, encoding: "utf8", maxBuffer: 1 << 28 });

/** Writes the report of a scenario; its path, and the result as JSON. */
export function report(name, file, ...options) {
  const json = JSON.parse(run("run", file, ...options, "--html", name, "--json", "--quiet"));
  return { path: join(place, name), json };
}

export let browser;
before(async () => {
  browser = await tools("playwright-core").chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"],
  });
});
after(async () => {
  await browser?.close();
  rmSync(place, { recursive: true, force: true });
});

/** Opens a report and waits until it can be used; what it asked for and complained of is `said`. */
export async function open(path, { hash = "", ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, colorScheme: "light", ...options });
  const page = await context.newPage();
  const said = [];
  page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push("error: " + e.message));
  page.on("request", (r) => {
    if (!r.url().startsWith("file://" + path) && !r.url().startsWith("data:image/svg+xml;base64,")) said.push("request " + r.url());
  });
  page.on("dialog", (d) => { said.push("dialog " + d.message()); d.dismiss(); });
  await page.goto("file://" + path + hash);
  if (options.javaScriptEnabled !== false)
    for (let tries = 0; tries < 600; ++tries) {
      if (await page.evaluate(() => document.documentElement.dataset.ready)) break;
      await new Promise((done) => setTimeout(done, 50));
    }
  return { page, said, close: () => context.close() };
}

/** After what was asked for has been drawn and written into the address. */
export const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 260)))));

/** The state of the view, as the address has it. */
export const stateOf = (page) => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));

/** Rows of a table by the selector of its panel: {titles, rows}, the texts of their cells. */
export const tableOf = (page, selector, number = 0) => page.$$eval(selector + " table", (tables, n) => {
  const texts = (cells) => [...cells].map((c) => c.textContent);
  return { titles: texts(tables[n].tHead.rows[0].cells), rows: [...tables[n].tBodies[0].rows].map((r) => texts(r.cells)) };
}, number);

/** Serious findings of axe-core, past the policy of the page: evaluated by the browser's debugger. */
export async function seriousFindings(page, source) {
  await page.evaluate(source);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => `${v.id}: ${v.nodes.map((n) => n.target).slice(0, 3)}`);
}

// SPDX-License-Identifier: Apache-2.0
// STEPCAST=... PAGE_TOOLS=build/page node --test kinds_test.mjs: what holds for every kind of report, of
// a step, a comparison, a search, stores and a training run: in chromium and, once each, in firefox.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { open, place, run, seriousFindings, tools } from "./harness.mjs";

const kKinds = {
  run: ["verdict", "account", "timeline", "memory", "scenario"],
  compare: ["cases", "accounts", "timeline", "memory", "scenario"],
  search: ["verdict", "best", "axes", "points", "funnel", "scenario"],
  store: ["verdict", "best", "points", "funnel", "scenario"],
  train: ["verdict", "waterfall", "intervals", "plans", "assumed", "scenario"],
};
const kHostile = "<script>window.pwned=1</script>'\"<img src=x onerror=window.pwned=2>";
const pathOf = (kind) => join(place, kind + ".html");

before(() => {
  writeFileSync(join(place, "my.yaml"), `name: ${JSON.stringify(kHostile)}\ndescription: ${JSON.stringify(kHostile)}\n` +
    "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\nbatch: {global: 64, micro: 1, seq: 4096}\n" +
    "search: {where: \"cp == 1 and micro == 1 and recompute == 'none'\"}\njob: {tokens: 1T, price: 2USD/GPUh}\n");
  run("run", "my.yaml", "--html", "run.html", "--quiet");
  run("compare", "my.yaml", "--schedules", "1f1b,zb-h1", "--html", "compare.html", "--quiet");
  run("search", "my.yaml", "--top", "5", "--store", "runs", "--html", "search.html", "--quiet");
  run("report", "runs", "-o", "store.html", "--quiet");
  run("train", "my.yaml", "--gpus", "32", "--replicas", "100", "-s", "job.checkpoint={every: 2h}",
    "-s", `job.failures.causes=[{name: ${JSON.stringify(kHostile)}, per_node_day: 0.01}]`, "--html", "train.html", "--quiet");
});

for (const kind of Object.keys(kKinds))
  describe(`a report of ${kind}`, () => {
    test("opens without a request and without a word, has its panels, and names are text", async () => {
      for (const javaScriptEnabled of [true, false]) {
        const { page, said, close } = await open(pathOf(kind), { javaScriptEnabled });
        assert.deepEqual(said, []);
        if (javaScriptEnabled) assert.equal(await page.evaluate(() => window.pwned), undefined);
        for (const id of kKinds[kind]) assert.ok(await page.locator(`#${id} h2`).isVisible(), id);
        assert.equal(await page.locator("script").count(), 2);
        assert.equal(await page.locator("img[src=x]").count(), 0);
        assert.ok(!/[\u202a-\u202e\u2066-\u2069]/.test(await page.locator("body").innerText()));
        await close();
      }
    });

    test("fits a narrow screen", async () => {
      const { page, close } = await open(pathOf(kind), { viewport: { width: 420, height: 900 } });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 420);
      await close();
    });

    for (const colorScheme of ["light", "dark"])
      test(`axe has no serious finding, ${colorScheme}`, async () => {
        const { page, close } = await open(pathOf(kind), { colorScheme });
        if (kind === "run") await page.keyboard.press("m");  // with its sums
        await page.evaluate(() => { for (const d of document.querySelectorAll("details")) d.open = true; });
        assert.deepEqual(await seriousFindings(page, readFileSync(tools.resolve("axe-core/axe.min.js"), "utf8")), []);
        await close();
      });
  });

test("firefox opens each and is driven by keys", async (t) => {
  const fox = await tools("puppeteer-core").launch({ browser: "firefox", executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr", headless: true });
  t.after(() => fox.close());
  for (const kind of Object.keys(kKinds)) {
    const page = await fox.newPage(), said = [];
    page.on("console", (m) => said.push(m.text()));
    page.on("pageerror", (e) => said.push("error: " + e.message));
    const until = async (holds, what) => {
      for (let tries = 0; tries < 300; ++tries) {
        if (await holds()) return;
        await new Promise((done) => setTimeout(done, 50));
      }
      assert.fail(`${kind}: ${what}`);
    };
    await page.goto("file://" + pathOf(kind));
    await until(() => page.evaluate(() => document.documentElement.dataset.ready), "ready");
    await (await page.$("button.theme")).click();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark", kind);
    const chart = await page.$(".timeline canvas, #scatter canvas");
    if (chart) {
      const before = await page.evaluate(() => location.hash);
      await chart.focus();
      await page.keyboard.press(kind === "search" || kind === "store" ? "ArrowRight" : "w");
      await until(() => page.evaluate((old) => location.hash !== old, before), "the address follows");
      if (kind === "run") {
        await page.keyboard.press("m");
        await until(() => page.evaluate(() => document.querySelectorAll("#gantt .sums tbody tr").length > 3), "sums");
      }
    } else {
      await (await page.$("#intervals summary")).click();
      assert.ok(await page.evaluate(() => document.querySelector("#intervals details").open));
    }
    assert.deepEqual(said, [], kind);
    await page.close();
  }
});

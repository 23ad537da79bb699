// SPDX-License-Identifier: Apache-2.0
// STEPCAST=... PAGE_TOOLS=build/page node --test points_test.mjs: reports of searches and of stores in
// a browser, driven as a person would.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { open, place, run, settle, stateOf, tableOf } from "./harness.mjs";

const redraw = (page) => page.locator("#scatter canvas").evaluate((c) => Number(c.dataset.redraw));
const selected = (page) => page.locator("#scatter .details h3").innerText();

describe("a search", () => {
  const path = join(place, "search.html");
  let json;
  before(() => {
    writeFileSync(join(place, "search.yaml"), 'name: "<b>search</b>"\nmodel: llama3-8b\ncluster: dgx-h100 x 1\nbatch: {global: 16, seq: 4096}\n' +
      "search: {where: \"cp == 1 and micro == 1 and recompute == 'none'\"}\n");
    json = JSON.parse(run("search", "search.yaml", "--top", "5", "--budget", "500s", "--html", path, "--json", "--quiet"));
  });

  test("has the layouts, all that were simulated, the funnel and what runs the best", async () => {
    for (const width of [1400, 420]) {
      const { page, said, close } = await open(path, { viewport: { width, height: 900 } });
      assert.deepEqual(said, []);
      assert.equal(await page.locator("h1").innerText(), "<b>search</b>");
      assert.match(await page.locator("#scenario").innerText(), /stepcast search search.yaml --top 5 --budget 500s/);
      assert.match(await page.locator("#scenario").innerText(), /scenario hash\s+[0-9a-f]{16}/);
      assert.ok(await page.locator("#scenario tbody tr").count() > 100, "the resolved settings of the best");
      assert.equal(await page.locator("#best tbody tr").count(), json.best.length);
      const drawn = Number(/([\d,]+) forecasts, of which/.exec(await page.locator("#points .note").innerText())[1].replaceAll(",", ""));
      assert.ok(drawn >= json.funnel.decided.find((rule) => rule.rule === "fits").count);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width);
      await close();
    }
  });

  test("selects the best, and draws what lies one step from it on each axis", async () => {
    const { page, close } = await open(path);
    assert.match(await selected(page), /^#1: /);
    const axes = await page.$$eval("#lines svg", (all) => all.map((s) => s.querySelector("text").textContent));
    const taken = new Set(json.steps.filter((s) => s.searched && s.step_time_s !== undefined && s.axis !== "split").map((s) => s.axis));
    for (const axis of taken) assert.ok(axes.includes(axis), `${axis} of ${axes}`);
    await close();
  });

  test("shows its columns up to the distance from the first on a laptop's screen, and that the table goes on", async () => {
    const { page, close } = await open(path, { viewport: { width: 1280, height: 900 } });
    const seen = await page.$$eval("#best thead th", (all) => {
      const edge = all[0].closest(".scroll").getBoundingClientRect().right;
      return all.filter((th) => th.getBoundingClientRect().right <= edge).map((th) => th.textContent);
    });
    assert.ok(seen.includes("vs #1"), `${seen}`);
    assert.match(await page.$eval("#best .scroll", (e) => getComputedStyle(e).backgroundImage), /gradient/);
    assert.match(await page.locator("header .headline").innerText(), /llama3-8b, 8\.030 B parameters/);
    await close();
  });

  test("without JavaScript has the still picture and the steps as a table", async () => {
    const { page, close } = await open(path, { javaScriptEnabled: false });
    assert.ok(await page.locator("svg.scatter").isVisible());
    assert.equal((await tableOf(page, "#axes")).rows.length, json.steps.length);
    await close();
  });
});

describe("a store of settings that are no axes", () => {
  test("names each of them by itself", async () => {
    writeFileSync(join(place, "set.yaml"), "model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {tp: 2}\nbatch: {global: 16, seq: 4096}\n");
    run("sweep", "set.yaml", "--axis", "overlap.dp_grad=true,false", "--axis", "overlap.dp_param=true,false", "--store", "set", "--quiet");
    run("report", "set", "-o", "set.html", "--quiet");
    const { page, close } = await open(join(place, "set.html"));
    const facts = await page.$$eval("#scatter .details dl", ([dl]) => [...dl.children].map((e) => e.textContent));
    const set = facts.filter((_, i) => facts[i - 1] === "also set");
    assert.equal(set.length, 2, `${facts}`);
    for (const one of set) assert.match(one, /^overlap\.dp_(grad|param)=(true|false)$/);
    await close();
  });
});

describe("a store", () => {
  const path = join(place, "store.html");
  let rows;
  before(() => {
    writeFileSync(join(place, "my.yaml"), "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\nbatch: {global: 256, seq: 8192}\n" +
      "job: {tokens: 1T, price: 2USD/GPUh}\n");
    run("sweep", "my.yaml", "--axis", "parallel.tp=1,2,4,8", "--axis", "parallel.pp=1,2,4", "--axis", "batch.micro=1,2,4", "--store", "runs", "--quiet");
    run("report", "runs", "-o", path, "--quiet");
    rows = JSON.parse(run("top", "runs", "--json", "-n", "1000")).rows;
  });

  test("opens without a request and without a word on the console, and is the same bytes again", async () => {
    const { page, said, close } = await open(path);
    assert.deepEqual(said, []);
    run("report", "runs", "-o", "again.html", "--quiet");
    assert.deepEqual(readFileSync(join(place, "again.html")), readFileSync(path));
    await close();
  });

  test("arrows go to the next better and worse, and a link leads back to it", async () => {
    const { page, close } = await open(path);
    await page.locator("#scatter canvas").focus();
    for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowLeft");
    await settle(page);
    assert.match(await selected(page), /^#3: /);
    const shown = await page.locator("#scatter .details").innerText();
    for (const word of rows[2].settings.split(" ")) assert.ok(shown.includes("-s " + word), word);
    const second = await open(path, { hash: await page.evaluate(() => location.hash) });
    assert.equal(await second.page.locator("#scatter .details").innerText(), shown);
    await second.close();
    await close();
  });

  test("a click selects the point under it, and a click on a line goes along the axis", async () => {
    const { page, close } = await open(path);
    const own = await page.locator("#lines svg").filter({ hasText: "TP" }).first();
    const before = await selected(page);
    await own.locator("circle:not(.own)").last().click();
    assert.notEqual(await selected(page), before);
    assert.match(await selected(page), /TP 8/);
    await page.keyboard.press("Escape");
    const canvas = page.locator("#scatter canvas");
    await canvas.focus();
    for (let i = 0; i < 100; ++i) await page.keyboard.press("ArrowLeft");
    await settle(page);
    assert.match(await selected(page), /^#1: /);
    await close();
  });

  test("W zooms in, F shows all, and figures can be chosen", async () => {
    const { page, said, close } = await open(path);
    await page.locator("#scatter canvas").focus();
    const whole = await page.locator("#scatter canvas").screenshot();
    for (const key of ["w", "w", "d", "a", "s"]) await page.keyboard.press(key);
    await settle(page);
    assert.notDeepEqual(await page.locator("#scatter canvas").screenshot(), whole);
    await page.keyboard.press("f");
    await settle(page);
    assert.deepEqual(await page.locator("#scatter canvas").screenshot(), whole);
    await page.getByLabel("across").selectOption({ label: "price" });
    await settle(page);
    assert.equal((await stateOf(page)).x, "price");
    assert.match(await page.locator("#lines .note").innerText(), /^Price .* kUSD/);
    assert.deepEqual(said, []);
    await close();
  });

  test("what is no state in the address is left aside", async () => {
    for (const hash of ["#p=NaN", "#p=-5", "#p=1e9", "#p=0.5&x=nothing&y=%", "#p=Infinity"]) {
      const { page, said, close } = await open(path, { hash });
      assert.deepEqual(said, [], hash);
      assert.notEqual(await selected(page), "", hash);
      await close();
    }
  });

  test("prints the still picture, in light colours", async () => {
    const { page, close } = await open(path, { colorScheme: "dark" });
    assert.ok((await page.pdf({ format: "A4" })).length > 10000);
    await page.emulateMedia({ media: "print" });
    assert.ok(await page.locator("svg.scatter").isVisible());
    assert.ok(!await page.locator("#scatter canvas").isVisible());
    await close();
  });

  test("names out of it are text", async () => {
    const bad = `<script>window.pwned=1</script>'"<img src=x onerror="window.pwned=2">`;
    run("merge", "runs", "-o", "bad.db", "--quiet");
    const quoted = "'" + bad.replaceAll("'", "''") + "'";
    execFileSync("sqlite3", [join(place, "bad.db"), `UPDATE steps SET name = ${quoted}, file = ${quoted}, gpu = ${quoted}, ` +
      `settings = ${quoted} || tp, recompute = ${quoted}, schedule = ${quoted}, stage_layers = ${quoted}`]);
    run("report", "bad.db", "-o", "bad.html", "--quiet");
    for (const javaScriptEnabled of [true, false]) {
      const { page, said, close } = await open(join(place, "bad.html"), { javaScriptEnabled });
      assert.deepEqual(said, []);
      if (javaScriptEnabled) assert.equal(await page.evaluate(() => window.pwned), undefined);
      assert.equal(await page.locator("script").count(), 2);
      assert.equal(await page.locator("img").count(), 0);
      assert.ok((await page.locator("h1").innerText()).includes("<script>"));
      await close();
    }
  });
});

test("a hundred thousand points: at most 6 MB, ready and drawn without a long wait", async () => {
  writeFileSync(join(place, "many.yaml"), "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\nbatch: {global: 256, seq: 8192}\n" +
    "job: {tokens: 1T, price: 2USD/GPUh}\n");
  run("sweep", "many.yaml", "--axis", "parallel.tp=2", "--store", "many", "--quiet");
  // Rows like the one that is there, with other axes, times and memory.
  execFileSync("sqlite3", [join(place, "many", "many.sweep.1-of-1.db"), `
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)
    INSERT INTO steps SELECT printf('%032x', i), name, file,
      printf('parallel.tp=%d parallel.pp=%d batch.micro=%d number=%d', 1 << i % 4, 1 << i / 4 % 4, 1 + i / 16 % 8, i), gpu, gpus, nodes,
      1 << i % 4, cp, 1 << i / 4 % 4, vpp, ep, etp, dp, zero, 1 + i / 16 % 8, microbatches, global_batch, seq, recompute, schedule,
      stage_layers, step_time_ps + i * 7654321987 % 9000000000000, memory_peak_bytes, 20000000000 + i * 1234567891 % 70000000000,
      memory_usable_bytes, tokens_per_s_per_gpu * (1 + i % 1000 / 1000.0), mfu * (1 - i % 997 / 2000.0), job_tokens, price_usd_per_gpu_h,
      useful_share, token_j
    FROM n, (SELECT * FROM steps LIMIT 1)`]);
  run("report", "many", "-o", "many.html", "--quiet");
  const path = join(place, "many.html");
  assert.ok(statSync(path).size <= 6e6, String(statSync(path).size));
  // The best of three: a machine that does something else is no slow page.
  let ready = Infinity, drawn = Infinity;
  for (let tries = 0; tries < 3 && !(ready <= 1500 && drawn <= 50); ++tries) {
    const { page, said, close } = await open(path);
    assert.deepEqual(said, []);
    assert.match(await page.locator("h1 + p").innerText(), /100,000 forecasts/);
    ready = Math.min(ready, Number(await page.evaluate(() => document.documentElement.dataset.ready)));
    await page.locator("#scatter canvas").focus();
    const times = [];
    for (const key of ["w", "s", "d", "a", "ArrowRight", "w", "f"]) {
      await page.keyboard.press(key);
      await settle(page);
      times.push(await redraw(page));
    }
    times.sort((a, b) => a - b);
    drawn = Math.min(drawn, times[Math.floor(times.length / 2)]);
    await close();
  }
  // What a machine that does much else still keeps; a quiet one is ready in 1.5 s and draws in 50 ms.
  console.log(`100,000 points: ready ${ready} ms, drawn ${drawn} ms`);
  assert.ok(ready <= 15000, `${ready} ms`);
  assert.ok(drawn <= 500, `${drawn} ms`);
});

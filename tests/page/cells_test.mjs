// SPDX-License-Identifier: Apache-2.0
// STEPCAST=... PAGE_TOOLS=build/page node --test cells_test.mjs: tables of reports cell by cell against
// --json of the same command.  A cell shows a figure of it to the last decimal that it has.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { examples, open, place, report, run, tableOf } from "./harness.mjs";

const kSpends = {
  "matrix products": "matmul", attention: "attention", norms: "norm", elementwise: "elementwise",
  "embedding, loss": "embedding_loss", recompute: "recompute", "gradient buffers": "gradient_buffers",
  optimizer: "optimizer", "TP exposed": "exposed_tp", "CP exposed": "exposed_cp", "EP exposed": "exposed_ep",
  "PP exposed": "exposed_pp", "DP exposed": "exposed_dp", "other exposed": "exposed_other", "pipeline fill": "fill",
  "stage imbalance": "imbalance", "pipeline drain": "drain", "blocked sends": "blocked", straggler: "straggler",
  "expert imbalance": "expert_imbalance", contention: "contention", "launch gaps": "launch", "idle at the end": "idle_end",
};
const kWaits = /^(exposed_|fill|imbalance|drain|blocked|straggler|expert_imbalance|contention|launch|idle_end)/;
const kUnits = { s: 1e12, ms: 1e9, us: 1e6, ns: 1e3 };
const kCategories = { optimizer: "optimizer_state", recompute: "recompute_workspace" };
const gib = (bytes) => bytes / 2 ** 30;

let cells = 0;

/** That a cell says this value, to its last decimal; `slack` in units of that. */
function says(cell, value, what, slack = 0.5) {
  ++cells;
  const text = cell.replace(/,/g, "").replace(/ %$/, "").replace(/^\+/, "");
  assert.match(text, /^-?\d+(\.\d+)?$/, `${what}: '${cell}'`);
  const last = 10 ** -(text.split(".")[1]?.length ?? 0);
  assert.ok(Math.abs(Number(text) - value) <= (slack + 1e-6) * last + Math.abs(value) * 1e-12, `${what}: '${cell}' is not ${value}`);
}
const equals = (cell, text, what) => {
  ++cells;
  assert.equal(cell, String(text), what);
};

/** "12.94 s" */
function saysTime(cell, ps, what) {
  const [number, unit] = cell.split(" ");
  says(number, ps / (kUnits[unit] ?? 1), what);
}

const unitOf = (title) => kUnits[/, (\w+)$/.exec(title)[1]];
const criticalOf = (result) => result.account.find((rank) => rank.critical);
const sumOf = (items, counts) => Object.entries(items).reduce((sum, [key, ps]) => sum + (counts.test(key) ? ps : 0), 0);

for (const name of ["gpt3-175b-64xa100", "deepseek-v3-2048xh800", "llama3-405b-16384xh100"])
  describe(`the page of ${name}`, () => {
    let page, close, json, critical, explained;
    before(async () => {
      const file = join(examples, name + ".yaml"), made = report(name + ".html", file);
      json = made.json;
      critical = criticalOf(json);
      explained = JSON.parse(run("explain", file, "--costs", "--links", "--json"));
      ({ page, close } = await open(made.path));
    });
    after(() => close());

    test("verdict", async () => {
      const cards = Object.fromEntries(await page.$$eval("#verdict .card", (all) =>
        all.map((c) => [c.querySelector("dt").textContent, [c.querySelector("b").textContent, c.querySelector("span")?.textContent ?? ""]])));
      saysTime(cards["Step time"][0], json.step_time_ps, "step time");
      says(cards["Peak memory"][0].replace(" GiB", ""), gib(json.memory.reserved_bytes), "memory");
      says(/of ([\d.]+) usable/.exec(cards["Peak memory"][1])[1], gib(json.memory.usable_bytes), "usable");
      says(cards.Speed[0], json.tokens_per_s_per_gpu, "speed");
      says(cards.MFU[0], json.mfu.value * 100, "MFU");
      says(/HFU ([\d.]+) %/.exec(cards.MFU[1])[1], json.hfu * 100, "HFU");
      says(/causal ([\d.]+) %/.exec(cards.MFU[1])[1], json.mfu.all.causal_attention * 100, "causal MFU");
      says(cards.Bubble[0], json.bubble.fraction * 100, "bubble");
      says(cards["Exposed communication"][0], sumOf(critical.items_ps, /^exposed_/) / json.step_time_ps * 100, "exposed");
      const [, low, high] = /: ([\d.]+ \w+) to ([\d.]+ \w+)/.exec(cards["Step time"][1]) ?? [];
      if (json.interval) {
        saysTime(low, json.interval.low_s * 1e12, "low");
        saysTime(high, json.interval.high_s * 1e12, "high");
      }
    });

    test("account: parts add up to the step, and what is free is saved", async () => {
      const { titles, rows } = await tableOf(page, "#account"), unit = unitOf(titles[1]);
      let sum = 0;
      for (const row of rows) {
        sum += Number(row[1]);
        const key = kSpends[row[0]];
        if (!key) continue;  // "other compute": several
        // Shares and times are shared out so that they add up as shown.
        says(row[1], (critical.items_ps[key] ?? 0) / unit, row[0], 1);
        says(row[2], (critical.items_ps[key] ?? 0) / json.step_time_ps * 100, row[0], 1);
        const free = json.what_if.find((w) => w.free === key);
        if (free && row[4]) says(row[4], -free.saved_ps / unit, "free " + row[0]);
      }
      const decimals = rows[0][1].split(".")[1]?.length ?? 0;
      says(sum.toFixed(decimals), Object.values(critical.items_ps).reduce((a, b) => a + b) / unit, "sum");
    });

    test("memory of each rank", async () => {
      const tables = await page.locator("#memory table").count();
      let found = null;
      for (let i = 0; i < tables && !found; ++i) {
        const t = await tableOf(page, "#memory", i);
        if (t.titles[0] === "rank") found = t;
      }
      assert.equal(found.rows.length, json.memory.by_rank.length);
      found.rows.forEach((row, i) => {
        const rank = json.memory.by_rank[i];
        equals(row[0], rank.name, "rank");
        found.titles.forEach((title, c) => {
          if (title === "reserved, GiB") says(row[c], gib(rank.reserved_bytes), title);
          else if (title === "allocated, GiB") says(row[c], gib(rank.peak_bytes), title);
          else if (title === "microbatches") says(row[c], rank.peak_in_flight, title);
          else if (c > 3) says(row[c], gib(rank.by_category[kCategories[title] ?? title]), title);
        });
      });
    });

    test("waits of each rank", async () => {
      if (await page.locator("#bubble").count() === 0) return;
      const { titles, rows } = await tableOf(page, "#bubble");
      assert.equal(rows.length, json.account.length);
      rows.forEach((row, i) => {
        const { items_ps: items, name: rank } = json.account[i], whole = Object.values(items).reduce((a, b) => a + b);
        equals(row[0], rank, "rank");
        says(row[2], sumOf(items, kWaits) / whole * 100, `sum of ${rank}`, 2);
        for (let c = 3; c < row.length; ++c) says(row[c], (items[kSpends[titles[c]]] ?? 0) / whole * 100, `${titles[c]} of ${rank}`, 0.6);
      });
    });

    test("links", async () => {
      const fullest = await tableOf(page, "#communication", 1), crossings = await tableOf(page, "#communication", 2);
      const links = explained.links.fullest.filter((l) => l.bytes >= 1e4);
      assert.deepEqual(fullest.rows.map((r) => r.slice(0, 3)), links.map((l) => [l.links, l.from, l.to]));
      fullest.rows.forEach((row, i) => {
        says(row[3], links[i].bytes / 1e9, "GB");
        says(row[4], links[i].seconds, "seconds");
        if (!row[5].startsWith("<")) says(row[5], links[i].seconds / json.step_time_s * 100, "of the step");
      });
      const crossed = explained.links.crossings.filter((l) => l.bytes >= 1e4);
      assert.equal(crossings.rows.length, crossed.length);
      crossings.rows.forEach((row, i) => {
        equals(row[3], crossed[i].links, "links");
        says(row[6], crossed[i].bytes / 1e9, "GB");
        says(row[7], crossed[i].seconds, "seconds");
      });
    });

    test("trust: shares, and the largest prices", async () => {
      const shares = await page.$$eval("#trust .legend li", (all) => all.map((l) => l.textContent));
      for (const text of shares) {
        const [, origin, share] = /^(\w+) <?([\d.]+ %)$/.exec(text);
        if (text.includes("<")) assert.ok(json.trust[origin] < 0.001, text);
        else says(share, json.trust[origin] * 100, origin);
      }
      const { rows } = await tableOf(page, "#trust"), known = new Map(explained.costs.map((c) => [c.work + c.basis, c]));
      for (const row of rows) {
        const cost = known.get(row[0] + row[5]);
        assert.ok(cost, row[0]);
        says(row[1], cost.runs, "runs of " + row[0]);
        saysTime(row[2], cost.time_ps, "price of " + row[0]);
        equals(row[4], cost.origin, "origin of " + row[0]);
      }
    });

    test("settings and hashes", async () => {
      const { rows } = await tableOf(page, "#scenario");
      assert.equal(rows.length, explained.settings.length);
      rows.forEach((row, i) => {
        equals(row[0], explained.settings[i].path, "path");
        equals(row[1], explained.settings[i].value, row[0]);
      });
      const facts = await page.locator("#scenario .facts").innerText();
      for (const hash of [json.scenario.hash, json.calibration_hash, json.version]) assert.ok(facts.includes(hash), hash);
    });
  });

describe("the page of a comparison", () => {
  let page, close, json;
  before(async () => {
    const path = join(place, "compare.html");
    json = JSON.parse(run("compare", join(examples, "gpt3-175b-64xa100.yaml"), "--schedules", "1f1b,interleaved,zb-v", "--html", path, "--json", "--quiet"));
    ({ page, close } = await open(path));
  });
  after(() => close());

  test("cases", async () => {
    const { titles, rows } = await tableOf(page, "#cases"), unit = unitOf(titles[2]);
    const base = json.cases.find((c) => c.name === json.baseline);
    rows.forEach((row, i) => {
      const c = json.cases[i];
      equals(row[0], c.name, "name");
      says(row[2], c.step_time_ps / unit, "step");
      if (c !== base) says(row[3], (c.step_time_ps / base.step_time_ps - 1) * 100, "against the baseline");
      const [low, high] = row[4].split(" to ");
      says(low, c.interval.low_s * 1e12 / unit, "low");
      says(high, c.interval.high_s * 1e12 / unit, "high");
      says(row[5], c.tokens_per_s_per_gpu, "speed");
      says(row[6], c.bubble.fraction * 100, "bubble");
      says(row[7], gib(c.memory.reserved_bytes), "memory");
      says(row[9], c.mfu.value * 100, "MFU");
    });
  });

  test("accounts and waits", async () => {
    const accounts = await tableOf(page, "#accounts"), unit = unitOf(accounts.titles[0]);
    for (const row of accounts.rows)
      json.cases.forEach((c, i) => says(row[i + 1], (criticalOf(c).items_ps[kSpends[row[0]]] ?? 0) / unit, `${row[0]} of ${c.name}`));
    const { titles, rows } = await tableOf(page, "#bubble");
    rows.forEach((row, i) => {
      const items = criticalOf(json.cases[i]).items_ps, whole = Object.values(items).reduce((a, b) => a + b);
      equals(row[0], json.cases[i].name, "name");
      for (let c = 3; c < row.length; ++c) says(row[c], (items[kSpends[titles[c]]] ?? 0) / whole * 100, titles[c], 0.6);
    });
  });

  test("memory and hashes", async () => {
    const { rows } = await tableOf(page, "#memory");
    rows.forEach((row, i) => {
      const { memory } = json.cases[i], fullest = memory.by_rank.find((r) => r.rank === memory.reserved_rank);
      says(row[2], gib(memory.reserved_bytes), "reserved");
      says(row[3], gib(fullest.peak_bytes), "allocated");
      says(row[4], gib(memory.usable_bytes), "usable");
      equals(row[5], fullest.name, "rank");
    });
    const facts = await page.locator("#scenario .facts").innerText();
    for (const c of json.cases) assert.ok(facts.includes(c.scenario.hash), c.name);
  });
});

// Columns of tables of layouts, by their titles.
const kColumns = {
  GPUs: (l) => l.gpus, TP: (l) => l.tp, PP: (l) => l.pp, VP: (l) => l.vpp, CP: (l) => l.cp, EP: (l) => l.ep, ETP: (l) => l.etp,
  DP: (l) => l.dp, MBS: (l) => l.micro_batch, ZeRO: (l) => l.zero, recompute: (l) => l.recompute, schedule: (l) => l.schedule,
  split: (l) => l.split, "step s": (l) => l.step_time_s, "tok/s/GPU": (l) => l.tokens_per_s_per_gpu, "MFU %": (l) => l.mfu * 100,
  "peak GiB": (l) => gib(l.memory_reserved_bytes), "allocated GiB": (l) => gib(l.memory_peak_bytes),
  "free %": (l) => (1 - l.memory_reserved_bytes / l.memory_usable_bytes) * 100, "fits %": (l) => l.fits_share * 100,
  "bubble %": (l) => l.bubble * 100, "exposed %": (l) => l.exposed * 100, days: (l) => l.days, kUSD: (l) => l.price_usd / 1000,
  twins: (l) => l.twins.length,
};

function comparesLayouts({ titles, rows }, layouts) {
  assert.equal(rows.length, layouts.length);
  rows.forEach((row, i) => titles.forEach((title, c) => {
    if (title === "#") return equals(row[c], i + 1, title);
    if (title === "vs #1") return i > 0 && says(row[c], (layouts[i].step_time_ps / layouts[0].step_time_ps - 1) * 100, title);
    if (title === "what makes it") return;
    assert.ok(title in kColumns, `the column ${title}`);
    const value = kColumns[title](layouts[i]);
    if (typeof value === "string") equals(row[c], value, title);
    else if (row[c] !== "") says(row[c], value, `${title} of #${i + 1}`);
  }));
}

const kScenario = "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\nbatch: {global: 64, seq: 8192}\n" +
  "job: {tokens: 1T, price: 2USD/GPUh}\nsearch: {where: \"cp == 1 and micro <= 2\"}\n";

describe("the page of a search", () => {
  let page, close, json;
  before(async () => {
    writeFileSync(join(place, "my.yaml"), kScenario);
    json = JSON.parse(run("search", "my.yaml", "--top", "6", "--html", "search.html", "--json", "--quiet"));
    ({ page, close } = await open(join(place, "search.html")));
  });
  after(() => close());

  test("the best layouts", async () => {
    const table = await tableOf(page, "#best");
    comparesLayouts(table, json.best);
    const makes = table.titles.indexOf("what makes it");
    table.rows.forEach((row, i) => equals(row[makes].replaceAll("'", ""), json.best[i].set.map((s) => "-s " + s).join(" "), "settings"));
  });

  test("the layouts one step from the first", async () => {
    const { rows } = await tableOf(page, "#axes");
    assert.equal(rows.length, json.steps.length);
    rows.forEach((row, i) => {
      const step = json.steps[i], first = json.best[0];
      assert.ok(row[0].startsWith(`${step.axis} ${step.to} instead of ${step.from}`), row[0]);
      if (step.fits) says(row[1], (step.step_time_ps / first.step_time_ps - 1) * 100, row[0]);
      else equals(row[1], "", row[0]);
      says(row[2], gib(step.memory_reserved_bytes - first.memory_reserved_bytes), row[0]);
    });
  });

  test("the funnel", async () => {
    const all = await tableOf(page, "#funnel", 0), layouts = await tableOf(page, "#funnel", 1);
    says(all.rows[0][2], json.funnel.points, "points");
    assert.deepEqual(all.rows.slice(1).map((r) => r[0]), json.funnel.no_layouts.map((r) => r.words));
    all.rows.slice(1).forEach((row, i) => says(row[2], json.funnel.no_layouts[i].count, row[0]));
    says(layouts.rows[0][2], json.funnel.layouts, "layouts");
    layouts.rows.slice(1).forEach((row, i) => {
      equals(row[0], json.funnel.decided[i].words, "rule");
      says(row[2], json.funnel.decided[i].count, row[0]);
    });
  });

  test("points are the layouts that were simulated, and the first is the best", async () => {
    const facts = await page.$$eval("#scatter .facts dt", (all) => Object.fromEntries(all.map((t) => [t.textContent, t.nextSibling.textContent])));
    says(facts["step time"].replace(" s", ""), json.best[0].step_time_s, "step");
    says(facts["peak memory"].replace(" GiB", ""), gib(json.best[0].memory_reserved_bytes), "memory");
    says(facts["tokens/s/GPU"], json.best[0].tokens_per_s_per_gpu, "speed");
    says(facts.price.replace(" kUSD", ""), json.best[0].price_usd / 1000, "price");
    const run = JSON.parse(await runOf(facts.run));
    assert.equal(run.step_time_ps, json.best[0].step_time_ps);
  });

  // What the page says to run, run.
  const runOf = (line) => run(...line.split(" ").slice(1).map((word) => word.replaceAll("'", "")), "--json");
});

describe("the page of a store", () => {
  test("rows, as `stepcast top` lists them", async () => {
    writeFileSync(join(place, "my.yaml"), kScenario);
    run("sweep", "my.yaml", "--axis", "parallel.tp=1,2,4,8", "--axis", "batch.micro=1,2", "--store", "runs", "--quiet");
    for (const options of [[], ["--by", "price,peak_memory", "--pareto"], ["-n", "2", "--memory-margin", "40%"], ["--tokens", "15T"]]) {
      run("report", "runs", ...options, "-o", "store.html", "--force", "--quiet");
      const { rows } = JSON.parse(run("top", "runs", ...options, "--json"));
      const { page, said, close } = await open(join(place, "store.html"));
      comparesLayouts(await tableOf(page, "#best"), rows);
      const funnel = await tableOf(page, "#funnel"), counts = funnel.rows.map((r) => Number(r[2]));
      assert.equal(counts[0], counts.slice(1).reduce((a, b) => a + b));
      assert.deepEqual(said, []);
      await close();
    }
  });
});

describe("a training run", () => {
  const path = join(place, "train.html");
  const kParts = { useful: "useful_s", "slow ranks": "slow_ranks_s", evaluation: "evaluation_s", checkpoint: "checkpoint_s", redo: "redo_s",
    restart: "restart_s", wait: "wait_s", "wall time": "wall_s" };
  const kScale = { k: 1e3, M: 1e6, "": 1 };
  let page, close, json;
  /** "28.00 M" */
  const saysMetric = (cell, value, what) => {
    const [number, prefix = ""] = cell.split(" ");
    says(number, value / kScale[prefix], what);
  };
  const kUnits = { ms: 1e-3, s: 1, min: 60, h: 3600, days: 86400 };
  const saysSpan = (cell, seconds, what) => {
    const [number, unit] = cell.split(" ");
    says(number, seconds / kUnits[unit], what);
  };

  before(async () => {
    const file = join(examples, "llama3-405b-16384xh100.yaml");
    const sets = ["--tokens", "15.6T", "-s", "job={price: 2.5USD/GPUh, failures: {replace: {repair: 1d}, detect: 2min}, spares: 4, checkpoint: " +
      "{every: 1h}, evaluation: {every: 1000 steps, takes: 2min}, rampup: [{tokens: 252M, batch: 2048, seq: 4096}]}", "--gpus", "8192"];
    json = JSON.parse(run("train", file, ...sets, "--html", path, "--json", "--quiet"));
    ({ page, close } = await open(path));
  });
  after(() => close());

  test("verdict", async () => {
    const cards = Object.fromEntries(await page.$$eval("#verdict .card", (all) => all.map((c) => [c.querySelector("dt").textContent, c.querySelector("b").textContent])));
    saysSpan(cards.Training, json.days * 86400, "days");
    saysMetric(cards["GPU-hours"], json.gpu_hours, "GPU-hours");
    saysMetric(cards.Price.slice(1), json.price_usd, "price");
    says(cards.Useful, json.ettr * 100, "useful");
    says(cards.Interruptions, json.interruptions, "interruptions");
    says(cards.Spares, json.spares_for_99, "spares");
    saysSpan(cards["Checkpoint every"], json.checkpoint.every_s, "checkpoint");
    says(cards["Energy, MWh"], json.energy.mwh, "energy");
    const range = await page.locator("#verdict svg.interval").innerHTML();
    for (const days of [json.interval.low_days, json.interval.high_days]) assert.ok(range.includes(days.toFixed(days < 99.95 ? 1 : 0) + " days"), range);
  });

  test("the waterfall is that of --json, and adds up", async () => {
    const { rows } = await tableOf(page, "#waterfall");
    let days = 0;
    for (const [name, amount, share, hours] of rows) {
      const seconds = json.waterfall[kParts[name]];
      says(amount, seconds / 86400, name, 1);  // apportioned
      says(share, seconds / json.waterfall.wall_s * 100, name);
      saysMetric(hours, seconds / 3600 * json.gpus, name);
      if (name !== "wall time") days += Math.round(Number(amount) * 100);
    }
    const parts = Object.values(kParts).filter((key) => json.waterfall[key] > 0);
    assert.equal(rows.length, parts.length);
    assert.equal(days, Math.round(Number(rows.at(-1)[1]) * 100));
    // Each bar begins where the one before it ends.
    const bars = await page.$$eval("#waterfall svg.bar", (all) => all.map((s) => {
      const r = [...s.querySelectorAll("rect")].at(-1);
      return [Number(r.getAttribute("x")), Number(r.getAttribute("width"))];
    }));
    for (let i = 1; i < bars.length - 1; ++i) assert.ok(Math.abs(bars[i][0] - bars[i - 1][0] - bars[i - 1][1]) < 2, String(bars));
  });

  test("phases and plans", async () => {
    const phases = await tableOf(page, "#phases");
    assert.equal(phases.rows.length, json.phases.length);
    phases.rows.forEach((row, i) => {
      says(row[3], json.phases[i].global_batch, "batch");
      says(row[5], json.phases[i].step_time_s, "step");
    });
    const plans = await tableOf(page, "#plans");
    plans.rows.forEach((row, i) => {
      says(row[0], json.plans[i].gpus, "GPUs");
      says(row[1], json.plans[i].step_time_s, "step");
      says(row[3], json.plans[i].days, "days");
    });
    assert.equal(plans.rows.length, 1);
  });

  test("intervals, the best and the stated one among them", async () => {
    const { rows } = await tableOf(page, "#intervals");
    assert.equal(rows.length, json.intervals.length);
    rows.forEach((row, i) => {
      saysSpan(row[0], json.intervals[i].every_s, "every");
      says(row[1], json.intervals[i].days, "days");
      says(row[2], (json.intervals[i].days / json.checkpoint.best_days - 1) * 100, "more");
    });
    assert.equal(rows.filter((row) => row[3] === "best").length, 1);
    saysSpan(rows.find((row) => row[3] === "stated")[0], json.checkpoint.every_s, "stated");
    assert.equal(await page.locator("#intervals svg circle").count(), 1);
    assert.equal(await page.locator("#intervals svg .published").count(), 1);
  });

  test("what is assumed", async () => {
    const { rows } = await tableOf(page, "#assumed");
    assert.deepEqual(rows, json.assumed.map((fact) => [fact.name, fact.value, fact.reason]));
    cells += rows.length * 3;
  });
});

test("enough cells were compared", () => {
  if (process.env.SHOW_VIEWS) console.log(`${cells} cells`);
  assert.ok(cells > 1500, `${cells} cells`);
});

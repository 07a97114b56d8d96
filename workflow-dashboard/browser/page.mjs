// The browser of the stories, the pages that they open, and the checks that hold on each page.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Letters look alike on every machine.
  args: ["--no-sandbox", "--font-render-hinting=none"],
});

/** Opens a page, and fails if it logs an error. */
export async function inPage(options, story) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  await story(page);
  assert.deepEqual(errors, []);
  await context.close();
}

/** Asks again and again, until the answer is yes. */
export async function until(what, ask, attempts = 300) {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    if (await ask()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`never: ${what}`);
}

/** Fails if the page is wider than its window. */
export async function checkWidth(page, path) {
  const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(excess <= 0, `${path} is ${excess} px wider than its window`);
}

/** Returns what axe-core finds that is serious or critical, a line per element. */
export async function findFaults(page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return grave.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 140)} ${node.any[0]?.message ?? ""}`));
}

/** Returns the id of the run of the flow. */
export async function flowOf(address) {
  const list = await (await fetch(`${address}/runs?q=tag.flow:triage`)).text();
  return list.match(/data-row="([0-9a-f-]{36})"/)[1];
}

/** The pages, by the name of their pictures. `run` is the one whose worker died, `flow` that of the flow. */
export const pagesOf = (run, flow) => ({
  overview: "",
  runs: "/runs",
  run: `/runs/${run}?step=charge`,
  zoom: `/runs/${run}?at=1000-4000`,
  history: `/runs/${run}?tab=history`,
  signals: `/runs/${run}?tab=signals`,
  family: `/runs/${run}?tab=family`,
  data: `/runs/${run}?tab=data`,
  graph: `/runs/${flow}?tab=graph&step=each_part%2F1%2Flook`,
  words: "/words?q=sta",
  preview: "/bulk/new?q=status:failed&all=1&action=retry_run",
  approvals: "/approvals",
  failures: "/failures",
  workflows: "/workflows",
  workflow: "/workflows/checkout",
  flows: "/flows",
  flow: "/flows/triage",
  queues: "/queues",
  queue: "/queues/mail",
  schedules: "/schedules",
  workers: "/workers",
  bulk: "/bulk",
  audit: "/audit",
  system: "/system",
});

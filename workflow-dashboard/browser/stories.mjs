// Stories of the dashboard in a browser, with and without its script, light and dark, wide and
// narrow. `node stories.mjs ADDRESS RUN FOLDER` expects the server of the example `showcase`, and
// writes a picture of each page to the folder.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const [, , address, run, folder] = process.argv;
mkdirSync(folder, { recursive: true });
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const pages = {
  overview: "",
  runs: "/runs",
  run: `/runs/${run}?step=charge`,
  history: `/runs/${run}?tab=history`,
  approvals: "/approvals",
  workflows: "/workflows",
  queues: "/queues",
  schedules: "/schedules",
  workers: "/workers",
  audit: "/audit",
  system: "/system",
};

/** Opens a page, and fails if it logs an error or is wider than the window. */
async function inPage(options, story) {
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
async function until(what, ask) {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    if (await ask()) return;
  }
  assert.fail(`never: ${what}`);
}

const open = (page, path) => page.goto(`${address}${path}`);

for (const [name, path] of Object.entries(pages)) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1400, 390]) {
      await inPage({ colorScheme, viewport: { width, height: 900 } }, async (page) => {
        const answer = await open(page, path);
        assert.equal(answer.status(), 200, path);
        const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(excess <= 0, `${path} is ${excess} px wider than a window of ${width}`);
        await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png` });
      });
    }
  }
}
console.log(`${Object.keys(pages).length} pages, light and dark, wide and narrow: pictures in ${folder}`);

// Reading, searching and acting, with the script and without.
for (const javaScriptEnabled of [true, false]) {
  const word = javaScriptEnabled ? "with the script" : "without a script";
  await inPage({ javaScriptEnabled, viewport: { width: 1400, height: 900 } }, async (page) => {
    await open(page, "/runs");
    await page.locator(".facet", { hasText: "Failed" }).click();
    await page.waitForURL(/status(:|%3A)failed/);
    assert.ok((await page.locator("tr[data-row]").count()) >= 2, "failed runs");
    await page.locator("input[name=q]").fill("key:order-20931");
    await page.locator("input[name=q]").press("Enter");
    await page.locator("a.name", { hasText: "checkout" }).click();
    await page.waitForURL(new RegExp(run));
    assert.ok(await page.getByText("worker died").count(), "the crash is on the timeline");
    await page.locator("a.g-row", { hasText: "charge" }).click();
    assert.ok(await page.locator("#panel", { hasText: "R-20931" }).count(), "the output of the step");

    // An approval, with a reason, shows in the audit log.
    const reason = `checked ${word}`;
    await open(page, "/approvals");
    const before = await page.locator(".inbox tbody tr").count();
    await page.locator("summary", { hasText: "Approve" }).first().click();
    await page.locator("details[open] input[name=reason]").fill(reason);
    await page.locator("details[open] button", { hasText: "Approve" }).click();
    await page.locator("[role=status]").waitFor();
    // The run takes the decision a moment later.
    await until("one approval less", async () => {
      await open(page, "/approvals");
      return (await page.locator(".inbox tbody tr").count()) === before - 1;
    });
    await open(page, "/audit?verb=run.decide");
    assert.ok(await page.getByText(reason).count(), "the reason is in the audit log");

    // A run is started, and canceled.
    await open(page, "/workflows");
    await page.locator("tr", { hasText: "report_monthly" }).locator("summary").click();
    await page.locator("details[open] textarea[name=input]").fill('{"n": 9223372036854775807}');
    await page.locator("details[open] button", { hasText: "Start the run" }).click();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
    assert.ok(await page.getByText("9223372036854775807").count(), "every digit of the input");
    await page.locator("summary", { hasText: "Cancel" }).click();
    await page.locator("details[open] button", { hasText: "Cancel the run" }).click();
    await page.locator(".pill", { hasText: "Canceled" }).waitFor();
  });
  console.log(`search, timeline, approval, start and cancel: ${word}`);
}

// With the script: rows change where they stand, new ones are counted, and keys work.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  await open(page, "/runs?q=workflow:report_monthly");
  const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await open(other, "/workflows");
  await other.locator("tr", { hasText: "report_monthly" }).locator("summary").click();
  await other.locator("details[open] button", { hasText: "Start the run" }).click();
  await page.locator("[data-newer]:visible", { hasText: "1 newer run" }).waitFor({ timeout: 5000 });
  await other.locator("summary", { hasText: "Pause" }).click();
  await other.locator("details[open] button", { hasText: "Pause" }).click();
  await page.locator("[data-newer] a").click();
  await page.locator("tr[data-row]").first().locator('[title="Paused"]').waitFor({ timeout: 5000 });

  await page.keyboard.press("?");
  assert.ok(await page.locator("dialog[open]").count(), "the keyboard map");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  assert.equal(await page.locator("tr.picked").count(), 1);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await page.waitForURL(/\/queues/);
  await page.keyboard.press("t");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await open(page, "/runs");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark", "the theme is kept");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.name), "q");
});
console.log("live rows, the banner of newer runs, keys and theme");

// A page is told of changes by a stream, and asks by itself where it gets none.
for (const hasStream of [true, false]) {
  await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
    if (!hasStream) await page.route("**/changes*", (route) => route.fulfill({ status: 204 }));
    const opened = page.waitForRequest((request) => request.url().includes("/changes?q=workflow"));
    await open(page, "/runs?q=workflow:report_monthly");
    await opened;
    const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
    await open(other, "/workflows");
    await other.locator("tr", { hasText: "report_monthly" }).locator("summary").click();
    await other.locator("details[open] button", { hasText: "Start the run" }).click();
    await page.locator("[data-newer]:visible", { hasText: "1 newer run" }).waitFor({ timeout: 5000 });
    await other.context().close();
  });
}
console.log("changes with a stream, and without one");
await browser.close();

// Stories of the dashboard in a browser, with and without its script, light and dark, wide and
// narrow. `node stories.mjs ADDRESS RUN` expects the server of the example `showcase`.
import assert from "node:assert/strict";
import { browser, checkWidth, findFaults, flowOf, inPage, pagesOf, until } from "./page.mjs";

const [, , address, run] = process.argv;
const open = (page, path) => page.goto(`${address}${path}`);

// Every page in every form: no error, no sideways scrolling, nothing that axe-core calls serious.
const pages = pagesOf(run, await flowOf(address));
const faults = [];
for (const [name, path] of Object.entries(pages)) {
  await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
    const answer = await open(page, path);
    assert.equal(answer.status(), 200, path);
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await checkWidth(page, `${path} at ${width}`);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        for (const fault of await findFaults(page)) faults.push(`${name} ${colorScheme} ${width}: ${fault}`);
      }
    }
  });
}
assert.deepEqual(faults, []);
console.log(`${Object.keys(pages).length} pages, light and dark, wide and narrow: no fault`);

// Reading, searching and acting, with the script and without.
for (const javaScriptEnabled of [true, false]) {
  const word = javaScriptEnabled ? "with the script" : "without a script";
  await inPage({ javaScriptEnabled, viewport: { width: 1400, height: 900 } }, async (page) => {
    await open(page, "/runs");
    await page.locator('a.facet[href$="q=status:failed"]').click();
    await page.waitForURL(/status(:|%3A)failed/);
    assert.ok((await page.locator("tr[data-row]").count()) >= 2, "failed runs");
    await page.locator("input[data-search]").fill("key:order-20931");
    await page.locator("input[data-search]").press("Enter");
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

// A deployed flow is started from its page, and a person decides how its run ends.
for (const javaScriptEnabled of [true, false]) {
  await inPage({ javaScriptEnabled, viewport: { width: 1400, height: 900 } }, async (page) => {
    await open(page, "/flows");
    await page.locator("tr", { hasText: "triage" }).locator("a", { hasText: "triage" }).click();
    await page.waitForURL(/\/flows\/triage/);
    assert.ok(await page.locator("svg.flow", { hasText: "sign_off" }).count(), "the graph of the newest version");
    await page.locator("#versions a", { hasText: /^2$/ }).click();
    await page.locator("h2", { hasText: "Version 2" }).waitFor();

    await open(page, "/approvals");
    const before = await page.locator(".inbox tbody tr").count();
    const row = page.locator(".inbox tr", { hasText: "How does the complaint" }).first();
    await row.locator("summary", { hasText: "Decide" }).click();
    await page.locator("details[open] label", { hasText: "replace" }).locator("input").check();
    await page.locator("details[open] input[name=note]").fill("one is in stock");
    await page.locator("details[open] button", { hasText: "Decide" }).click();
    await page.locator("[role=status]").waitFor();
    await until("one decision less", async () => {
      await open(page, "/approvals");
      return (await page.locator(".inbox tbody tr").count()) === before - 1;
    });

    await open(page, "/flows");
    await page.locator("tr", { hasText: "complaint" }).locator("summary", { hasText: "Start" }).click();
    await page.locator("details[open] textarea[name=input]").fill('{"order": 9223372036854775807}');
    await page.locator("details[open] button", { hasText: "Start the run" }).click();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
    await page.locator("h2", { hasText: "complaint" }).waitFor();
    await until("the question on the page of the run", async () => {
      await page.reload();
      return (await page.locator(".asks", { hasText: "9223372036854775807" }).count()) === 1;
    });
  });
}
console.log("deployed flows and decisions, with the script and without");

// The graph of a flow shows what ran, and leads to the panel of each step.
for (const javaScriptEnabled of [true, false]) {
  await inPage({ javaScriptEnabled, viewport: { width: 1400, height: 900 } }, async (page) => {
    await open(page, "/runs?q=tag.flow:triage");
    await page.locator("a.name", { hasText: "triage" }).click();
    await page.locator("h2", { hasText: "triage" }).waitFor();
    await page.locator("nav.tabs a", { hasText: "Graph" }).click();
    const box = (name) => page.locator("svg.flow").getByRole("link", { name });
    await box(/^wake: desk, done/).waitFor();
    assert.equal(await box(/^note:/).count(), 0, "the other way was not taken");
    assert.ok(await page.locator("svg.flow .reason.taken", { hasText: "then" }).count(), "the way that was");
    await box(/^look:/).click();
    await page.locator("#panel", { hasText: "label" }).waitFor();
    await page.locator('a[aria-label="The time before"]').click();
    await page.locator("#panel", { hasText: "photo" }).waitFor();
  });
}
console.log("the graph of a flow, with the script and without");

// A failure leads to the runs with its message; a run that is done again, and its copy, name each other.
for (const javaScriptEnabled of [true, false]) {
  await inPage({ javaScriptEnabled, viewport: { width: 1400, height: 900 } }, async (page) => {
    await open(page, "/failures");
    await page.locator("tr", { hasText: "CardDeclined" }).getByText("Runs", { exact: true }).click();
    await page.waitForURL(/error(:|%3A)/);
    assert.ok(await page.locator("tr[data-row]", { hasText: "CardDeclined" }).count(), "runs with the message");
    assert.equal(await page.locator("tr[data-row]", { hasText: "UnknownColumn" }).count(), 0, "no others");

    await open(page, `/runs/${run}?step=mail`);
    await page.locator("#panel summary", { hasText: "Run again from here" }).click();
    await page.locator("#panel details[open] button", { hasText: "Run again from here" }).click();
    await page.waitForURL((url) => /\/runs\/[0-9a-f-]{36}$/.test(url.pathname) && !url.pathname.endsWith(run));
    const copy = page.url().split("/").pop();
    await page.locator(`.facts a[href$="${run}"]`).click();
    await page.locator("nav.tabs a", { hasText: "Family" }).click();
    await page.locator(`#family tr:has(a[href$="${copy}"])`, { hasText: "from mail" }).waitFor();
  });
}
console.log("failures by message, and copies by name, with the script and without");

// With the script: rows change where they stand, new ones are counted, and keys work.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  await open(page, "/runs?q=workflow:report_monthly");
  const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await open(other, "/workflows");
  await other.locator("tr", { hasText: "report_monthly" }).locator("summary").click();
  await other.locator("details[open] button", { hasText: "Start the run" }).click();
  await page.locator("[data-newer]:visible", { hasText: "1 newer run" }).waitFor({ timeout: 30_000 });
  await other.locator("summary", { hasText: "Pause" }).click();
  await other.locator("details[open] button", { hasText: "Pause" }).click();
  await page.locator("[data-newer] a").click();
  await page.locator("tr[data-row]").first().locator('[title="Paused"]').waitFor({ timeout: 30_000 });

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

// What changes while a form is open is shown once the form is closed, although its summary keeps
// the focus.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await open(other, "/workflows");
  await other.locator("tr", { hasText: "report_monthly" }).locator("summary").click();
  await other.locator("details[open] button", { hasText: "Start the run" }).click();
  await other.waitForURL(/\/runs\/[0-9a-f-]{36}/);
  await page.goto(other.url());
  const form = page.locator("#head summary", { hasText: "Pause" });
  await form.click();
  const told = page.waitForResponse(
    async (response) =>
      "x-workflow-part" in response.request().headers()
      && response.status() === 200
      && (await response.text()).includes("Paused"),
    { timeout: 30_000 },
  );
  await other.locator("summary", { hasText: "Pause" }).click();
  await other.locator("details[open] button", { hasText: "Pause" }).click();
  await told;
  assert.equal(await page.locator("#head details[open]").count(), 1, "the form stays open");
  assert.equal(await page.locator("#head .pill", { hasText: "Paused" }).count(), 0, "the head stays with it");
  await form.click();
  await page.locator("#head .pill", { hasText: "Paused" }).waitFor({ timeout: 30_000 });
  await other.context().close();
});
console.log("what changes while a form is open");

/** Starts a run on a page without a script. */
async function startOn(page, workflow, key = "") {
  await open(page, "/workflows");
  await page.locator("tr", { hasText: workflow }).locator("summary").first().click();
  await page.locator("details[open] textarea[name=input]").fill("1");
  await page.locator("details[open] input[name=key]").fill(key);
  await page.locator("details[open] button", { hasText: "Start the run" }).click();
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
}

/** Starts a refund, and waits until it asks for its approval. */
async function startRefund(page) {
  await startOn(page, "refund");
  await until("the approval", async () => {
    await page.reload();
    return (await page.locator(".asks").count()) === 1;
  });
}

// What was typed stays once its form is left or closed.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await startRefund(other);
  await page.goto(`${other.url()}?tab=signals`);
  const [name, value] = [page.locator("#signals input[name=name]"), page.locator("#signals textarea")];
  await name.fill("picked_up");
  await value.fill('{"by": "ada"}');
  await page.locator("#head h2").click();
  await other.locator("summary", { hasText: "Pause" }).click();
  await other.locator("details[open] button", { hasText: "Pause" }).click();
  await page.locator("#head .pill", { hasText: "Paused" }).waitFor({ timeout: 30_000 });
  assert.deepEqual([await name.inputValue(), await value.inputValue()], ["picked_up", '{"by": "ada"}']);

  await open(page, "/approvals");
  const rows = await page.locator(".inbox tbody tr").count();
  await page.locator("summary", { hasText: "Approve" }).first().click();
  const note = page.locator("details[open] input[name=note]");
  await note.fill("seen the parcel");
  await page.locator("header h1").click();
  assert.equal(await page.locator("details[open]").count(), 0, "the form is closed");
  await startRefund(other);
  await page.locator("[data-newer]:visible", { hasText: "This list has changed" }).waitFor({ timeout: 30_000 });
  await page.locator("summary", { hasText: "Approve" }).first().click();
  assert.equal(await note.inputValue(), "seen the parcel");
  await page.locator("[data-newer] a").click();
  await until("the further row", async () => (await page.locator(".inbox tbody tr").count()) === rows + 1);
  await other.context().close();
});
console.log("what was typed stays");

// A run that leaves the search of its list is marked where it stands.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await startRefund(other);
  await startRefund(other);
  const left = other.url().split("/").pop();
  await open(page, "/runs?q=workflow:refund+is:open");
  const row = page.locator(`tr[data-row="${left}"]`);
  await row.locator("input").waitFor();
  await other.locator('summary[aria-label="More actions"]').click();
  await other.locator("summary", { hasText: "Terminate" }).click();
  await other.locator("details.fold[open] button", { hasText: "Terminate" }).click();
  await page.locator(`tr.gone[data-row="${left}"]`, { hasText: "no longer matches" }).waitFor({ timeout: 30_000 });
  assert.equal(await row.locator("input").count(), 0, "it cannot be chosen");
  assert.equal(await page.locator("[data-newer]:visible").count(), 0, "no run is newer");
  await other.context().close();
});
console.log("a run that leaves the search");

// The first rows are shown although the pointer rests on the page. Other rows do not move below it.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  const key = `first-${Date.now()}`;
  await open(page, `/runs?q=key:${key}`);
  await page.locator(".empty h2").hover();
  await startOn(other, "report_monthly", key);
  await page.locator("tr[data-row]", { hasText: key }).waitFor({ timeout: 30_000 });

  await open(page, "/approvals");
  const rows = await page.locator(".inbox tbody tr").count();
  const place = await page.locator(".inbox tbody tr").last().boundingBox();
  await page.locator(".inbox tbody tr").last().hover();
  await startRefund(other);
  await page.locator("[data-newer]:visible", { hasText: "This list has changed" }).waitFor({ timeout: 30_000 });
  assert.equal(await page.locator(".inbox tbody tr").count(), rows, "no row comes below the pointer");
  assert.deepEqual(await page.locator(".inbox tbody tr").last().boundingBox(), place, "and none moves");
  await page.locator("header h1").hover();
  await until("the further row", async () => (await page.locator(".inbox tbody tr").count()) === rows + 1);
  assert.equal(await page.locator("[data-newer]:visible").count(), 0, "nothing is held back");
  await other.context().close();
});
console.log("rows below the pointer");

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
    await page.locator("[data-newer]:visible", { hasText: "1 newer run" }).waitFor({ timeout: 30_000 });
    await other.context().close();
  });
}
console.log("changes with a stream, and without one");
// Many runs, with the script and without.
for (const javaScriptEnabled of [true, false]) {
  await inPage({ javaScriptEnabled, viewport: { width: 1400, height: 900 } }, async (page) => {
    await open(page, "/runs?q=workflow:send_digest");
    assert.equal(await page.locator(".bulk:visible").count(), 0, "no row is chosen");
    await page.locator('input[name="run"]').nth(0).check();
    await page.locator('input[name="run"]').nth(1).check();
    await page.locator(".bulk button", { hasText: "Pause" }).click();
    await page.waitForURL(/bulk\/new/);
    assert.ok(await page.getByText("2 runs", { exact: true }).count(), "the number of chosen runs");
    await page.locator("details[open] input[name=reason]").fill("a test");
    await page.locator("details[open] button", { hasText: "Pause" }).click();
    await page.locator("[role=status]").waitFor();

    await open(page, "/runs?q=workflow:send_digest");
    await page.locator("button", { hasText: "Change all that match" }).click();
    await page.locator("summary", { hasText: /^\s*Resume/ }).click();
    await page.locator("details[open] input[name=reason]").fill("the test is over");
    await page.locator("details[open] button", { hasText: "Resume" }).click();
    await page.waitForURL(/bulk\/[0-9a-f-]{36}/);
    await until("the end of the operation", async () => {
      await page.reload();
      return (await page.locator(".pill", { hasText: "Done" }).count()) === 1;
    });
  });
}
console.log("many runs: chosen ones, and all that match");

// By keyboard alone: the search completes its words, the palette leads anywhere, an approval is given.
await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  await open(page, "/runs");
  await page.keyboard.press("/");
  await page.keyboard.type("stat");
  await page.locator("#completions a", { hasText: "status:" }).first().waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator("#completions a", { hasText: "status:failed" }).waitFor();
  await page.keyboard.type("fai");
  await until("one completion", async () => {
    const words = await page.locator("#completions a").allTextContents();
    return words.length === 1 && words[0].includes("status:failed");
  });
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  assert.equal(await page.locator("input[data-search]").inputValue(), "status:failed ");
  await page.keyboard.press("Enter");
  await page.waitForURL(/status(:|%3A)failed/);

  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("sched");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/schedules/);
  await page.keyboard.press("Control+k");
  await page.keyboard.type("queue:mail");
  await page.keyboard.press("Enter");
  await page.waitForURL(/queue(:|%3A)mail/);

  await page.keyboard.press("j");
  await page.keyboard.press("x");
  assert.equal(await page.locator('input[name="run"]:checked').count(), 1);

  // A run of its own, so that one is left.
  await open(page, "/workflows");
  await page.locator("tr", { hasText: "refund" }).locator("summary").first().focus();
  await page.keyboard.press("Enter");
  await page.locator("details[open] textarea[name=input]").fill("1");
  await page.locator("details[open] button", { hasText: "Start the run" }).press("Enter");
  await page.locator(".asks").waitFor({ timeout: 20_000 });
  const pick = async (action) => {
    const rows = page.locator(".inbox tbody tr");
    const number = await rows.evaluateAll(
      (all, value) => all.findIndex((row) => row.querySelector(`input[name="action"][value="${value}"]`)),
      action,
    );
    assert.ok(number >= 0, `a row to ${action}`);
    for (let at = 0; at <= number; at += 1) await page.keyboard.press("j");
  };
  await open(page, "/approvals");
  await pick("approve");
  await page.keyboard.press("a");
  assert.equal(await page.evaluate(() => document.activeElement.name), "note");
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await page.locator("[role=status]").waitFor();

  // A decision: `a` opens it at its first option.
  await open(page, "/approvals");
  await pick("choose");
  await page.keyboard.press("a");
  assert.equal(await page.evaluate(() => document.activeElement.name), "choice");
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  await page.locator("[role=status]").waitFor();
});
console.log("search, palette, choice, approval and decision by keyboard");
await browser.close();

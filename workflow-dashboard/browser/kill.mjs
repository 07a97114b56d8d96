// The story of a kill: a run is started on a page, its worker is killed, the crash and the
// resumption appear on the timeline, the approval is given, and the run ends.
// `node kill.mjs PROGRAM PORT DATABASE` has the program of the example `showcase`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { browser, inPage, until } from "./page.mjs";

const [, , program, port, database] = process.argv;
const address = `http://127.0.0.1:${port}/workflows`;
const children = new Set();
function begin(...parts) {
  const child = spawn(program, [...parts, database], { stdio: ["ignore", "ignore", "inherit"] });
  children.add(child);
  return child;
}
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));

begin("pages", `127.0.0.1:${port}`);
await until("an answer", () => fetch(address).then((answer) => answer.ok, () => false), 300);
const first = begin("work");

await inPage({ viewport: { width: 1400, height: 900 } }, async (page) => {
  await until("a worker", async () => {
    await page.goto(`${address}/workflows`);
    return (await page.locator("tr", { hasText: "deliver" }).locator("summary").count()) > 0;
  }, 300);
  await page.locator("tr", { hasText: "deliver" }).locator("summary").first().click();
  await page.locator("details[open] textarea[name=input]").fill("20931");
  await page.locator("details[open] button", { hasText: "Start the run" }).click();
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
  await page.locator("a.g-row", { hasText: "carry" }).waitFor({ timeout: 60_000 });

  // The page is not loaded again: what follows appears on it.
  first.kill("SIGKILL");
  begin("work");
  await page.locator(".g-workers", { hasText: "resumed after" }).waitFor({ state: "attached", timeout: 90_000 });
  assert.ok(await page.locator(".crash line").count(), "a line where the worker died");
  await page.locator(".asks", { hasText: "hand over" }).waitFor({ timeout: 60_000 });
  await page.locator(".asks summary", { hasText: "Approve" }).click();
  await page.locator(".asks details[open] input[name=note]").fill("seen");
  await page.locator(".asks details[open] button", { hasText: "Approve" }).click();
  await page.locator(".pill", { hasText: "Succeeded" }).waitFor({ timeout: 60_000 });
  await page.locator("a.g-row", { hasText: "carry" }).click();
  assert.ok(await page.locator("#panel", { hasText: "crash" }).count(), "the panel says that a crash cut it off");
});
console.log("start, SIGKILL, crash and resumption on the timeline, approval, end");
await browser.close();
process.exit(0);

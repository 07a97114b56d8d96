// Pictures of every page, light and dark, wide and narrow: `node pictures.mjs ADDRESS RUN FOLDER`.
import { mkdirSync } from "node:fs";
import { browser, flowOf, inPage, pagesOf } from "./page.mjs";

const [, , address, run, folder] = process.argv;
mkdirSync(folder, { recursive: true });
const pages = Object.entries(pagesOf(run, await flowOf(address)));
for (const [name, path] of pages) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1400, 390]) {
      await inPage({ colorScheme, viewport: { width, height: 900 } }, async (page) => {
        await page.goto(`${address}${path}`);
        await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png` });
      });
    }
  }
}
console.log(`${pages.length} pages, light and dark, wide and narrow: pictures in ${folder}`);
await browser.close();

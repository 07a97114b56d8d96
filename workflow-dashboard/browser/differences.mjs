// Compares a picture of every page, light and dark, wide and narrow, with the committed one:
// `node differences.mjs ADDRESS RUN TIME FOLDER [accept]`. The server shows the database of
// `recorded/`, and its clock stands still at TIME, in nanoseconds since 1970. A picture that
// differs leaves three in FOLDER: the committed one, the new one, and their difference. With
// `accept` the new pictures take the place of the committed ones.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { browser, flowOf, inPage, pagesOf, until } from "./page.mjs";

const [, , address, run, time, folder, word] = process.argv;
const accepts = word === "accept";
const committed = join(dirname(fileURLToPath(import.meta.url)), "pictures");

// A committed picture has one pixel for four of the screen, so it is small.
const scale = 2;
// A pixel within an area of one colour differs by more than 1 of 256 shades. The edges of letters
// and lines depend on the machine a little: there the mean of a square differs by more than 4.
const limits = { flat: 1, mean: 4, square: 8 };
// So many pixels of a picture may differ.
const tolerated = 12;

/** Returns the rules of a package of fonts, with the files for Latin text inside. */
function fontsOf(name, sheet) {
  const file = createRequire(import.meta.url).resolve(`${name}/${sheet}`);
  const rules = readFileSync(file, "utf8").match(/@font-face \{[^}]*\}/g).filter((rule) => /-latin-/.test(rule));
  return rules.map((rule) => rule.replace(/src: url\((\S+?\.woff2)\)[^;]*;/, (_, path) => {
    const bytes = readFileSync(join(dirname(file), path)).toString("base64");
    return `src: url(data:font/woff2;base64,${bytes}) format("woff2");`;
  })).join("\n");
}

// The fonts of another machine would move the words; a release changes what is hidden.
const style = `${fontsOf("@fontsource-variable/inter", "wght.css")}
${fontsOf("@fontsource/dejavu-mono", "400.css")}
${fontsOf("@fontsource/dejavu-mono", "700.css")}
:root { --font: "Inter Variable", "DejaVu Mono"; --mono: "DejaVu Mono" }
.rail .foot, #instance dt:first-child + dd, #database dd { visibility: hidden }`;

const canvas = await (await browser.newContext()).newPage();
await canvas.evaluate(() => {
  const draw = async (type, text, scale) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/${type};base64,${text}`)).blob());
    const [width, height] = [Math.ceil(bitmap.width / scale), Math.ceil(bitmap.height / scale)];
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    context.drawImage(bitmap, 0, 0, width, height);
    return [context, context.getImageData(0, 0, width, height)];
  };
  const encode = async (context, image) => {
    context.putImageData(image, 0, 0);
    // A quality of 1 loses nothing.
    const blob = await context.canvas.convertToBlob({ type: "image/webp", quality: 1 });
    const bytes = new Uint8Array(await blob.arrayBuffer());
    let text = "";
    for (let from = 0; from < bytes.length; from += 8192) text += String.fromCharCode(...bytes.subarray(from, from + 8192));
    return btoa(text);
  };
  const colours = [0, 1, 2];
  const isFlat = ({ data, width }, at) =>
    colours.every((colour) => data[at + colour] === data[at + colour - 4] && data[at + colour] === data[at + colour - 4 * width]);

  // Edges keep 16 shades of each colour, which makes a picture a third as large.
  window.shrink = async (png, scale) => {
    const [context, image] = await draw("png", png, scale);
    const exact = { data: image.data.slice(), width: image.width };
    for (let at = 0; at < exact.data.length; at += 4) {
      if (isFlat(exact, at)) continue;
      for (const colour of colours) image.data[at + colour] = Math.round(exact.data[at + colour] / 17) * 17;
    }
    return encode(context, image);
  };

  // Returns how many pixels of two pictures differ, and a picture of where: red, over a pale page.
  window.compare = async (before, after, { flat, mean, square }) => {
    const [[, old], [context, fresh]] = [await draw("webp", before, 1), await draw("webp", after, 1)];
    const { width, height } = fresh;
    if (old.width !== width || old.height !== height) return { count: width * height, picture: after };
    const found = new Uint8Array(width * height);
    for (let top = 0; top < height; top += square) {
      for (let left = 0; left < width; left += square) {
        const places = [];
        for (let y = top; y < Math.min(top + square, height); y += 1) {
          for (let x = left; x < Math.min(left + square, width); x += 1) places.push(y * width + x);
        }
        const away = (place, colour) => fresh.data[4 * place + colour] - old.data[4 * place + colour];
        for (const colour of colours) {
          const sum = places.reduce((all, place) => all + away(place, colour), 0);
          const isOff = Math.abs(sum) > mean * places.length;
          for (const place of places) {
            const isOne = Math.abs(away(place, colour)) > flat && isFlat(old, 4 * place) && isFlat(fresh, 4 * place);
            if (isOff || isOne) found[place] = 1;
          }
        }
      }
    }
    const image = new ImageData(width, height);
    found.forEach((differs, place) => {
      const pale = colours.map((colour) => 192 + fresh.data[4 * place + colour] / 4);
      image.data.set(differs ? [220, 0, 0, 255] : [...pale, 255], 4 * place);
    });
    return { count: found.reduce((all, one) => all + one, 0), picture: await encode(context, image) };
  };
});

const extension = ".webp";
const [found, taken] = [[], new Map()];
let most = 0;
mkdirSync(committed, { recursive: true });
mkdirSync(folder, { recursive: true });
// The differences of the last run, and nothing else that the folder has.
for (const name of readdirSync(folder)) {
  if (/-(light|dark)-(committed|new|difference)\.webp$/.test(name)) rmSync(join(folder, name));
}

async function judge(name, screen) {
  const fresh = await canvas.evaluate(([png, by]) => window.shrink(png, by), [screen.toString("base64"), scale]);
  const file = join(committed, name + extension);
  taken.set(name + extension, Buffer.from(fresh, "base64"));
  const known = existsSync(file);
  if (accepts) return;
  const before = known ? readFileSync(file).toString("base64") : fresh;
  const { count, picture } = await canvas.evaluate((all) => window.compare(...all), [before, fresh, limits]);
  most = Math.max(most, count);
  if (known && count <= tolerated) return;
  found.push(known ? `${name}: ${count} pixels differ` : `${name}: no picture is committed`);
  for (const [kind, bytes] of Object.entries({ committed: before, new: fresh, difference: picture })) {
    if (known || kind === "new") writeFileSync(join(folder, `${name}-${kind}${extension}`), Buffer.from(bytes, "base64"));
  }
}

await until("an answer", () => fetch(address).then((answer) => answer.ok, () => false), 300);
const pages = Object.entries(pagesOf(run, await flowOf(address)));
const options = { bypassCSP: true, locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", viewport: { width: 1400, height: 900 } };
for (const [name, path] of pages) {
  await inPage(options, async (page) => {
    await page.clock.setFixedTime(Number(time) / 1e6);
    const answer = await page.goto(`${address}${path}`);
    const hint = "If the recorded database has tables of before, run scripts/browser --record.";
    assert.equal(answer.status(), 200, `${path} answers ${answer.status()}. ${hint}`);
    await page.addStyleTag({ content: style });
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: 900 });
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        // The layout asks for the fonts.
        await page.evaluate(() => document.body.offsetWidth && document.fonts.ready.then(() => true));
        await judge(`${name}-${width}-${colorScheme}`, await page.screenshot({ animations: "disabled" }));
      }
    }
  });
}
await browser.close();
// Nothing is lost if a page fails before.
for (const name of readdirSync(committed).filter((name) => !taken.has(name))) {
  if (accepts) rmSync(join(committed, name));
  else found.push(`${name}: no page has this picture`);
}
if (accepts) taken.forEach((bytes, name) => writeFileSync(join(committed, name), bytes));
if (found.length > 0) {
  console.error(found.join("\n"));
  console.error(`${found.length} pictures are not as committed: see ${folder}. If they are right, run scripts/browser --accept.`);
  process.exit(1);
}
console.log(`${taken.size} pictures of ${pages.length} pages: ${accepts ? "accepted" : `at most ${most} pixels differ`}`);
// A connection that fetch keeps open would hold the process.
process.exit(0);

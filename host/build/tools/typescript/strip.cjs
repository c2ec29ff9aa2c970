// Replaces types by blanks. Arguments: the directory of amaro, then pairs of a source and a file to write.
const fs = require("node:fs");

const [amaro, ...files] = process.argv.slice(1);
const { transformSync } = require(amaro);
for (let at = 0; at < files.length; at += 2) {
  const source = fs.readFileSync(files[at], "utf8");
  try {
    fs.writeFileSync(files[at + 1], transformSync(source, { mode: "strip-only" }).code);
  } catch (error) {
    console.error(`${files[at]}: ${error.message ?? error}`);
    process.exit(1);
  }
}

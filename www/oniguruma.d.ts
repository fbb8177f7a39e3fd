export { toRegExp } from "oniguruma-to-es";
